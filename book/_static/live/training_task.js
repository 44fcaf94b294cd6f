/* What is learned: the hundred numbers, without those that the reader withholds, and the reader's own pairs. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const words = (text) => text.trim().split(/\s+/).filter(Boolean);

  /** "7, 20-29" as numbers, in order and each once. */
  function parseNumbers(text, limit) {
    const found = new Set();
    for (const part of text.split(/[,;\s]+/).filter(Boolean)) {
      const range = /^(\d+)(?:[-–](\d+))?$/.exec(part);
      const [first, last] = range ? [Number(range[1]), Number(range[2] ?? range[1])] : [];
      if (!range || last >= limit || first > last) {
        throw new RangeError(`“${part}” is no number from 0 to ${limit - 1} and no range such as 40-49.`);
      }
      for (let number = first; number <= last; number++) {
        found.add(number);
      }
    }
    if (found.size > limit - 10) {
      throw new RangeError(`${found.size} of ${limit} numbers are withheld: leave at least 10 to learn from.`);
    }
    return [...found].sort((a, b) => a - b);
  }

  class Task {
    /** `saved` is what description() of workshop/site/training_task.py gives. */
    constructor(saved) {
      Object.assign(this, saved);
      this.vocabulary = [...saved.vocabulary];
      this.known = saved.vocabulary.length;
      this.numbers = saved.pairs.length;
      this.sentences = [];
      this.choose([], "");
    }

    /** Which numbers to withhold, and which pairs to add, one a line: good morning = guten Morgen. */
    choose(withheld, ownText) {
      const own = this.parsePairs(ownText);
      this.withheld = new Set(withheld);
      this.vocabulary.length = this.known;
      const { eos } = this.special;
      const ids = (text) => words(text).map((word) => this.id(word));
      this.sentences = [...this.pairs, ...own].map(([source, target]) => ({
        text: source,
        right: target,
        source: [...ids(source), eos],
        target: [...ids(target), eos],
      }));
      this.batch = this.makeBatch();
    }

    id(word) {
      if (!this.vocabulary.includes(word)) {
        this.vocabulary.push(word);
      }
      return this.vocabulary.indexOf(word);
    }

    parsePairs(text) {
      const lines = text.split("\n").filter((line) => line.trim());
      const [most, left, right] = [this.rows - this.numbers, this.source_length - 1, this.target_length - 1];
      if (lines.length > most) {
        throw new RangeError(`${lines.length} pairs of your own; there is room for ${most}.`);
      }
      const own = lines.map((line) => {
        const sides = line.split("=").map((side) => words(side));
        if (sides.length !== 2 || !sides[0].length || !sides[1].length) {
          throw new RangeError(`“${line.trim()}”: write a pair as good morning = guten Morgen.`);
        }
        if (sides[0].length > left || sides[1].length > right) {
          throw new RangeError(`“${line.trim()}”: at most ${left} words on the left and ${right} on the right.`);
        }
        return sides.map((side) => side.join(" "));
      });
      const known = this.vocabulary.slice(0, this.known);
      const fresh = new Set(own.flatMap((sides) => sides.flatMap(words)).filter((word) => !known.includes(word)));
      if (fresh.size > this.own_words) {
        throw new RangeError(`${fresh.size} new words; there is room for ${this.own_words}.`);
      }
      return own;
    }

    /** The arrays of ids. A withheld number and a row without a pair have no target: nothing is learned from them. */
    makeBatch() {
      const { pad, bos, eos } = this.special;
      const [rows, wide, long] = [this.rows, this.source_length, this.target_length];
      const source = new BigInt64Array(rows * wide).fill(BigInt(pad));
      const targetInput = new BigInt64Array(rows * long).fill(BigInt(pad));
      const targetOutput = new BigInt64Array(rows * long).fill(BigInt(pad));
      for (let row = 0; row < rows; row++) {
        const sentence = this.sentences[row] ?? { source: [eos], target: [] };
        const learned = sentence.target.length && !this.withheld.has(row);
        source.set(sentence.source.map(BigInt), row * wide);
        targetInput.set([bos, ...sentence.target.slice(0, -1)].map(BigInt), row * long);
        targetOutput.set((learned ? sentence.target : []).map(BigInt), row * long);
      }
      return { source, targetInput, targetOutput };
    }

    /** Words up to <eos>. */
    decode(tokens) {
      const end = tokens.indexOf(this.special.eos);
      return (end < 0 ? tokens : tokens.slice(0, end)).map((id) => this.vocabulary[id] ?? "–").join(" ");
    }
  }

  Object.assign(LiveTranslator, { parseNumbers, Task });
})();
