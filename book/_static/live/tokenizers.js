/* Text to token ids and back, by the rules of transformer_lib/data/tokenizers.py and of the `tokenizers` library.
   A test compares both, sentence by sentence. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const [PAD, BOS, EOS, UNK] = [0, 1, 2, 3];
  // The languages disagree on what white space is. This is Python's str.split.
  const SPACES = /[\x1c-\x1f\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/gu;
  // As in transformer_lib/data/normalization.py.
  const MARKS = "\\u00ad\\u061c\\u180b-\\u180d\\u180f\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060\\u2066-\\u2069\\ufdd0-\\ufdef";
  const INVISIBLE = new RegExp(`[${MARKS}\\ufe00-\\ufe0f\\ufeff\\u{e0100}-\\u{e01ef}]+`, "gu");
  const WORD_START = "▁"; // written before a piece that begins a word
  const STAND_IN = "\ufdd0"; // for a ▁ of the text itself

  /** The text without invisible characters, in NFC, with single spaces between its words. */
  function normalized(text) {
    const whole = text.replace(/\p{Surrogate}/gu, "\ufffd").replace(INVISIBLE, "");
    return whole.normalize("NFC").replace(SPACES, " ").replace(/^ | $/g, "");
  }

  function upToEnd(ids) {
    const end = ids.indexOf(EOS);
    return (end < 0 ? ids : ids.slice(0, end)).filter((id) => id !== PAD && id !== BOS);
  }

  /** Words between spaces. */
  class WordTokenizer {
    constructor({ vocabulary, lowercase }) {
      this.vocabulary = vocabulary;
      this.lowercase = lowercase;
      // The special tokens cannot be typed.
      this.ids = new Map(vocabulary.map((token, id) => [token, id]).slice(UNK + 1));
    }

    /** The text in the units that get an id. */
    pieces(text) {
      const tidy = normalized(text);
      return (this.lowercase ? tidy.toLowerCase() : tidy).split(" ").filter(Boolean);
    }

    encode(text) {
      return this.pieces(text).map((word) => this.ids.get(word) ?? UNK);
    }

    decode(ids) {
      return upToEnd(ids).map((id) => this.vocabulary[id]).join(" ");
    }
  }

  /** Byte-pair encoding: pieces of words, joined in the order in which training learned to join them. */
  class SubwordTokenizer {
    constructor({ vocabulary, merges }) {
      this.vocabulary = vocabulary;
      this.ids = new Map(vocabulary.map((token, id) => [token, id]));
      this.ranks = new Map(merges.map(([left, right], rank) => [`${left} ${right}`, rank]));
    }

    /** The text in the units that get an id. */
    pieces(text) {
      const words = normalized(text).replaceAll(WORD_START, STAND_IN).split(" ").filter(Boolean);
      return words.flatMap((word) => this.#joined(WORD_START + word));
    }

    encode(text) {
      return this.pieces(text).map((piece) => this.ids.get(piece) ?? UNK);
    }

    #joined(word) {
      const pieces = [...word]; // characters, not halves of them
      for (;;) {
        let [best, place] = [Infinity, -1];
        for (let i = 0; i + 1 < pieces.length; i++) {
          const rank = this.ranks.get(`${pieces[i]} ${pieces[i + 1]}`) ?? Infinity;
          if (rank < best) {
            [best, place] = [rank, i];
          }
        }
        if (place < 0) {
          return pieces;
        }
        pieces.splice(place, 2, pieces[place] + pieces[place + 1]);
      }
    }

    decode(ids) {
      const pieces = upToEnd(ids).map((id) => this.vocabulary[id]);
      const text = pieces.map((piece, i) => piece.replaceAll(WORD_START, i === 0 ? "" : " ")).join("");
      return text.replaceAll(STAND_IN, WORD_START);
    }
  }

  /** What of the text the model cannot read, in the order of the text. */
  function unknownPieces(tokenizer, text) {
    const unknown = tokenizer.pieces(text).filter((piece) => !tokenizer.ids.has(piece));
    return unknown.map((piece) => piece.replaceAll(STAND_IN, WORD_START));
  }

  function makeTokenizer(saved) {
    return saved.kind === "words" ? new WordTokenizer(saved) : new SubwordTokenizer(saved);
  }

  Object.assign(LiveTranslator, { makeTokenizer, unknownPieces, special: { PAD, BOS, EOS, UNK } });
})();
