/* Text to token ids and back, by the rules of transformer_lib/data/tokenizers.py and of the `tokenizers` library.
   A test compares both, sentence by sentence. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const [PAD, BOS, EOS, UNK] = [0, 1, 2, 3];
  // The languages disagree on what white space is. These are Python's str.split and Unicode's White_Space.
  const UNICODE_SPACE = "\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
  const PYTHON_SPACES = new RegExp(`[\\x1c-\\x1f${UNICODE_SPACE}]+`, "u");
  const SPACES = new RegExp(`[${UNICODE_SPACE}]+`, "gu");
  const WORD_START = "▁"; // written before a piece that begins a word

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
      return (this.lowercase ? text.toLowerCase() : text).split(PYTHON_SPACES).filter(Boolean);
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
      const tidy = text.normalize("NFC").replace(SPACES, " ").replace(/^ | $/g, "");
      if (tidy === "") {
        return [];
      }
      const marked = tidy.replaceAll(" ", WORD_START);
      const whole = marked.startsWith(WORD_START) ? marked : WORD_START + marked;
      return whole.match(/▁[^▁]*/gu).flatMap((word) => this.#joined(word));
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
      return pieces.map((piece, i) => piece.replaceAll(WORD_START, i === 0 ? "" : " ")).join("");
    }
  }

  /** What of the text the model cannot read, in the order of the text. */
  function unknownPieces(tokenizer, text) {
    return tokenizer.pieces(text).filter((piece) => !tokenizer.ids.has(piece));
  }

  function makeTokenizer(saved) {
    return saved.kind === "words" ? new WordTokenizer(saved) : new SubwordTokenizer(saved);
  }

  Object.assign(LiveTranslator, { makeTokenizer, unknownPieces, special: { PAD, BOS, EOS, UNK } });
})();
