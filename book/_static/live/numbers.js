/* Numbers in English words, as transformer_lib/data/number_words.py writes them: for readers who type digits. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " +
    "seventeen eighteen nineteen"
  ).split(" ");
  const TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split(" ");
  const LIMIT = 1_000_000;
  const WORDS = new Set([...SMALL, ...TENS, "hundred", "thousand"]);

  function englishNumber(number) {
    if (!Number.isInteger(number) || number < 0 || number >= LIMIT) {
      throw new RangeError(`${number} is out of range: number words go from 0 to ${(LIMIT - 1).toLocaleString("en")}.`);
    }
    if (number < 20) {
      return SMALL[number];
    }
    if (number < 100) {
      const ones = number % 10;
      return [TENS[Math.floor(number / 10) - 2], ...(ones ? [SMALL[ones]] : [])].join(" ");
    }
    const [unit, word] = number < 1000 ? [100, "hundred"] : [1000, "thousand"];
    const rest = number % unit;
    return [englishNumber(Math.floor(number / unit)), word, ...(rest ? [englishNumber(rest)] : [])].join(" ");
  }

  /** "447" and "12,345." become words, "Forty-seven" and "one hundred and five" those learned; another text stays. */
  function withNumbersSpelled(text) {
    const digits = text.trim().replace(/(?<=\d)[,.\u00a0\u202f ](?=\d{3}(?!\d))/g, "").replace(/[.!?]$/, "");
    if (/^\d+$/.test(digits)) {
      return englishNumber(Number(digits));
    }
    const words = text.toLowerCase().split(/[\s,.!?\u002d\u2010\u2011\u2013]+/).filter((word) => word && word !== "and");
    return words.length && words.every((word) => WORDS.has(word)) ? words.join(" ") : text;
  }

  Object.assign(LiveTranslator, { englishNumber, withNumbersSpelled });
})();
