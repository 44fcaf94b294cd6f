/* Numbers in English words, as transformer_lib/data/number_words.py writes them: for readers who type digits, capitals,
   hyphens, *and*. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " +
    "seventeen eighteen nineteen"
  ).split(" ");
  const TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split(" ");
  const VALUES = new Map([...SMALL.map((word, i) => [word, i]), ...TENS.map((word, i) => [word, 20 + 10 * i])]);
  const SCALES = ["hundred", "thousand"];
  const WORDS = [...VALUES.keys(), ...SCALES];
  const LIMIT = 1_000_000;
  const RANGE = `number words go from 0 to ${(LIMIT - 1).toLocaleString("en")}.`;

  function englishNumber(number) {
    if (!Number.isInteger(number) || number < 0 || number >= LIMIT) {
      throw new RangeError(`${number} is out of range: ${RANGE}`);
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

  /** "Forty-Seven." as "forty seven", "a hundred and five" as "one hundred five": as the models have learned them. */
  function plainWords(text) {
    const bare = text.normalize("NFKC").toLowerCase().trim().replace(/^["'“„«]+|["'”“».!?…]+$/g, "");
    return bare
      .replace(/[\p{Pd}\u00ad−_,;]+/gu, " ")
      .replace(/\ban? (?=hundred|thousand)/g, "one ")
      .replace(new RegExp(`\\b(${TENS.join("|")})(?=(?:${SMALL.slice(1, 10).join("|")})\\b)`, "g"), "$1 ")
      .split(/\s+/)
      .filter((word) => word && word !== "and")
      .join(" ");
  }

  /** Digits as words; words made plain. */
  function spelled(text) {
    const digits = text.normalize("NFKC").trim().replace(/[.!?]+$/, "").replace(/(?<=\d)[,.'’\u00a0\u202f ](?=\d{3}(?!\d))/g, "");
    return /^\d+$/.test(digits) ? englishNumber(Number(digits)) : plainWords(text);
  }

  /** "447" and "12,345" become words, "Forty-seven" those learned; any other text stays as it is. */
  function withNumbersSpelled(text) {
    const words = spelled(text);
    return words && words.split(" ").every((word) => WORDS.includes(word)) ? words : text;
  }

  /** Whether one letter more, one less or another one turns the first word into the second. */
  function isNear(word, known) {
    let start = 0;
    while (start < word.length && word[start] === known[start]) {
      start += 1;
    }
    const [rest, other] = [word.slice(start), known.slice(start)];
    return rest.slice(1) === other.slice(1) || rest.slice(1) === other || rest === other.slice(1);
  }

  function refusal(word) {
    if (/^(million|billion|trillion)s?$/.test(word)) {
      return `“${word}” is out of range: ${RANGE}`;
    }
    if (/\d/.test(word)) {
      return `“${word}” cannot be read here. Write one whole number: 47, or forty-seven.`;
    }
    const meant = WORDS.find((known) => isNear(word, known));
    return `“${word}” is no English number word. ${meant ? `Did you mean ${meant}?` : "Try forty-seven, or 47."}`;
  }

  /** "seventeen eighty nine", as years are said: in the words of the models; nothing for words of another form. */
  function asYear(words) {
    for (let number = 1010; number < 10_000; number += 1) {
      const [century, year] = [Math.floor(number / 100), number % 100];
      if (year > 9 && `${englishNumber(century)} ${englishNumber(year)}` === words.join(" ")) {
        return englishNumber(number);
      }
    }
    return null;
  }

  /** The number that a text names, in digits or in words; an Error that a reader can act on if it names none. */
  function readNumber(text) {
    if (/^\s*[-−–]\s*\d|^\s*minus\b/i.test(text)) {
      throw new RangeError(`No number below zero was learned: ${RANGE}`);
    }
    const words = spelled(text).split(" ").filter(Boolean);
    if (!words.length) {
      throw new RangeError("There is no number yet. Try forty-seven, or 47.");
    }
    const strange = words.find((word) => !WORDS.includes(word));
    if (strange) {
      throw new RangeError(refusal(strange));
    }
    let [thousands, rest] = [0, 0];
    for (const word of words) {
      if (word === "thousand") {
        [thousands, rest] = [thousands + (rest || 1) * 1000, 0];
      } else {
        rest = word === "hundred" ? (rest || 1) * 100 : rest + VALUES.get(word);
      }
    }
    const proper = englishNumber(thousands + rest);
    if (proper !== words.join(" ")) {
      throw new RangeError(`“${words.join(" ")}” is not how the model learned its numbers. Did you mean ${asYear(words) ?? proper}?`);
    }
    return thousands + rest;
  }

  Object.assign(LiveTranslator, { englishNumber, withNumbersSpelled, readNumber });
})();
