/* A hundred test sentences, batch by batch: which of them the model still writes as it should. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const { BOS, EOS } = LiveTranslator.special;
  const { EXTRA, candidates, logProbabilities, element } = LiveTranslator;
  const BATCH = 20; // the page can draw between two steps of a batch

  const pause = () => new Promise((resolve) => setTimeout(resolve));

  /** The places of the pairs [text, wanted] whose greedy translation is the wanted text, to the letter.

      A sentence leaves its batch at the first token that differs, for it cannot become equal any more. Yields after
      each step: the places found so far, and how many pairs are decided. */
  async function* exactMatches(translator, pairs, switches) {
    const right = [];
    for (let first = 0; first < pairs.length; first += BATCH) {
      let open = pairs
        .slice(first, first + BATCH)
        .map(([text, wanted], i) => ({ place: first + i, wanted, source: translator.encode(text), tokens: [] }));
      const size = open.length;
      while (open.length) {
        const [sources, rows] = [open.map(({ source }) => source), open.map(({ tokens }) => [BOS, ...tokens])];
        const { logits } = await translator.run(sources, rows, switches);
        const going = [];
        open.forEach((one, i) => {
          one.tokens.push(candidates(logProbabilities(logits[i]), 1)[0].id);
          const written = translator.targetTokenizer.decode(one.tokens);
          const ended = one.tokens.at(-1) === EOS || one.tokens.length === one.source.length + EXTRA;
          if (ended && written === one.wanted) {
            right.push(one.place);
          } else if (!ended && one.wanted.startsWith(written)) {
            going.push(one);
          }
        });
        open = going;
        yield { right: [...right].sort((a, b) => a - b), decided: first + size - open.length };
        await pause();
      }
    }
  }

  /** Sentences as buttons in a folded box: each can be translated. */
  function showList(box, words, texts, translateText) {
    const buttons = texts.map((textContent) => {
      const button = element("button", { type: "button", textContent });
      button.addEventListener("click", () => translateText(textContent));
      return button;
    });
    box.hidden = texts.length === 0;
    box.querySelector("summary").textContent = `${words} ${texts.length}: press one to translate it`;
    box.querySelector("div").replaceChildren(...buttons);
  }

  /** The button that counts, and its figure beside that of the untouched model. */
  class Counter {
    #known = new Map(); // switches → places of the right ones
    #runs = 0;
    #follows = false; // from the first press on, until the reader stops it

    constructor(panel, translator, switches, translateText) {
      Object.assign(this, { translator, switches, translateText, boxes: panel.querySelectorAll(".live-sorted") });
      const found = [".live-count", ".live-progress", ".live-figure"].map((name) => panel.querySelector(name));
      [this.button, this.progress, this.figure] = found;
      const { pairs, of } = translator.hundred;
      this.button.hidden = pairs.length === 0; // of a file of the reader's own, exported without sentences
      panel.querySelector(".live-hundred").textContent = pairs.length
        ? `${pairs.length} ${of}, greedy. From then on the figure follows each switch.`
        : "";
      this.button.addEventListener("click", () => this.#press());
      this.#stop("");
    }

    #press() {
      this.#follows = this.progress.hidden;
      if (this.#follows) {
        this.#count();
      } else {
        this.#stop("Stopped.");
      }
    }

    /** Count again after a change, if the figure is wanted; the reader's own sentence goes first. */
    async follow(translated) {
      this.#stop("");
      await translated;
      if (this.#follows) {
        await this.#count();
      }
    }

    #stop(words) {
      this.#runs += 1;
      const { length } = this.translator.hundred.pairs;
      [this.progress.hidden, this.button.textContent] = [true, `Translate the ${length === 100 ? "hundred" : length}`];
      this.figure.textContent = words;
      for (const box of this.boxes) {
        box.hidden = true;
      }
    }

    async #count() {
      const mine = ++this.#runs;
      [this.progress.hidden, this.button.textContent] = [false, "Stop"];
      this.figure.textContent = "";
      const untouched = await this.#places(this.translator.asTrained(), mine);
      const right = untouched && (await this.#places(this.switches(), mine));
      if (right) {
        this.#show(right, untouched);
      }
    }

    /** The places of the right ones; null if another run has begun, or the reader has stopped this one. */
    async #places(switches, mine) {
      const { pairs } = this.translator.hundred;
      const key = JSON.stringify(switches);
      if (!this.#known.has(key)) {
        let found = null;
        for await (found of exactMatches(this.translator, pairs, switches)) {
          if (mine !== this.#runs) {
            return null;
          }
          this.progress.value = found.decided / pairs.length;
        }
        this.#known.set(key, found.right);
      }
      return mine === this.#runs ? this.#known.get(key) : null;
    }

    #show(right, untouched) {
      const { pairs, counted } = this.translator.hundred;
      this.#stop(`${right.length} of ${pairs.length} ${counted}. Of the untouched model: ${untouched.length}.`);
      const wrong = [...pairs.keys()].filter((place) => !right.includes(place));
      for (const [i, [words, places]] of [["These", right], ["The other", wrong]].entries()) {
        const texts = places.map((place) => pairs[place][0]);
        showList(this.boxes[i], words, texts, this.translateText);
      }
    }
  }

  Object.assign(LiveTranslator, { exactMatches, Counter });
})();
