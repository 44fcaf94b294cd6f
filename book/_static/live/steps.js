/* The table of choices: at each step the likeliest tokens, or the candidates of the beam. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const { element } = LiveTranslator;
  const NOTES = {
    1: "The five likeliest next tokens. Press another one to see where the sentence would have gone.",
    4: "The last token of the four candidates after each step, with the logarithm of the candidate's probability. It goes on from the candidate above it; after 2 means from the second one of the row above. Marked is the way of the best. What ends leaves the beam and stands in the last row, with its score: the logarithm divided by the length penalty. The best score wins.",
  };

  function header(labels) {
    const cells = labels.map((text) => element("th", { scope: "col", textContent: text }));
    return element("tr", {}, ...cells);
  }

  const numbered = (i) => element("th", { scope: "row", textContent: String(i + 1) });

  function greedyRow({ tokens, candidates }, i, written, choose) {
    const buttons = candidates.map(({ id, probability }) => {
      const share = `${(100 * probability).toFixed(1)}\u00a0%`;
      const button = element("button", { type: "button" }, element("b", { textContent: written(id) }), ` ${share}`);
      button.style.setProperty("--share", `${100 * probability}%`);
      button.setAttribute("aria-pressed", String(tokens.at(-1) === id));
      button.addEventListener("click", () => choose(i, id));
      return button;
    });
    const flow = element("div", { className: "live-candidates" }, ...buttons);
    return element("tr", {}, numbered(i), element("td", {}, flow));
  }

  const logarithm = (value) => value.toFixed(2).replace("-", "−");

  /** The last token of each candidate, and the number of the one above it that it goes on from, unless that is its own. */
  function beamRow(beams, i, best, written) {
    const cells = beams.map(({ tokens, parent, total }, place) => {
      const from = i && parent !== place ? ` after\u00a0${parent + 1}` : "";
      const isBest = tokens.every((id, at) => id === best[at]);
      const token = element(isBest ? "mark" : "b", { textContent: written(tokens.at(-1)) });
      return element("td", {}, token, ` ${logarithm(total)}${from}`);
    });
    return element("tr", {}, numbered(i), ...cells);
  }

  /** The ended sentences in one cell, each from where they part. */
  function finishedRow(finished, count, written) {
    const first = finished[0].tokens;
    const parts = first.findIndex((id, at) => finished.some(({ tokens }) => tokens[at] !== id));
    const lines = finished.map(({ tokens, score }) => {
      const text = tokens.slice(Math.max(parts, 0)).map(written).join(" ");
      return element("li", {}, element("b", { textContent: `${parts > 0 ? "… " : ""}${text}` }), ` ${logarithm(score)}`);
    });
    const label = element("th", { scope: "row", textContent: "end" });
    return element("tr", {}, label, element("td", { colSpan: count }, element("ol", {}, ...lines)));
  }

  function beamRows(steps, count, written) {
    const { finished, tokens } = steps.at(-1);
    const rows = steps.map(({ beams }, i) => beamRow(beams, i, tokens, written));
    return finished.length ? [...rows, finishedRow(finished, count, written)] : rows;
  }

  /** Draw the steps so far. `written` turns an id into its text; `choose(step, id)` is called for another token. */
  function drawSteps(place, steps, beamSize, written, choose) {
    place.querySelector(".live-steps-note").textContent = NOTES[beamSize];
    const isGreedy = beamSize === 1;
    const names = isGreedy ? ["likeliest tokens"] : ["likeliest", ...Array.from({ length: beamSize - 1 }, (_, i) => `${i + 2}`)];
    place.querySelector(".live-steps thead").replaceChildren(header(["step", ...names]));
    const rows = isGreedy
      ? steps.map((step, i) => greedyRow(step, i, written, choose))
      : beamRows(steps, beamSize, written);
    place.querySelector(".live-steps tbody").replaceChildren(...rows);
  }

  Object.assign(LiveTranslator, { drawSteps });
})();
