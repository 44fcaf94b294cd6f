/* The table of choices: at each step the likeliest tokens, or the candidates of the beam. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const { element } = LiveTranslator;
  const NOTES = {
    1: "The five likeliest next tokens. Press another one to see where the sentence would have gone.",
    4: "The four candidates after each step, with the logarithm of their probability. What ends leaves the beam and stands in the last row, with its score: the same divided by the length penalty. The best score wins.",
  };

  function header(labels) {
    const cells = labels.map((text) => element("th", { scope: "col", textContent: text }));
    return element("tr", {}, ...cells);
  }

  const numbered = (i) => element("th", { scope: "row", textContent: String(i + 1) });

  function greedyRow({ tokens, candidates }, i, written, choose) {
    const cells = candidates.map(({ id, probability }) => {
      const share = `${(100 * probability).toFixed(1)} %`;
      const button = element("button", { type: "button" }, element("b", { textContent: written(id) }), ` ${share}`);
      button.style.setProperty("--share", `${100 * probability}%`);
      button.setAttribute("aria-pressed", String(tokens.at(-1) === id));
      button.addEventListener("click", () => choose(i, id));
      return element("td", {}, button);
    });
    return element("tr", {}, numbered(i), ...cells);
  }

  function hypotheses(found, value, written) {
    return found.map((one) => {
      const text = one.tokens.map(written).join(" ");
      return element("td", {}, element("b", { textContent: text }), ` ${one[value].toFixed(2)}`);
    });
  }

  function beamRows(steps, written) {
    const rows = steps.map(({ beams }, i) =>
      element("tr", {}, numbered(i), ...hypotheses(beams, "total", written)),
    );
    const { finished } = steps.at(-1);
    const label = element("th", { scope: "row", textContent: "finished" });
    return finished.length ? [...rows, element("tr", {}, label, ...hypotheses(finished, "score", written))] : rows;
  }

  /** Draw the steps so far. `written` turns an id into its text; `choose(step, id)` is called for another token. */
  function drawSteps(place, steps, beamSize, written, choose) {
    place.querySelector(".live-steps-note").textContent = NOTES[beamSize];
    const count = beamSize === 1 ? 5 : beamSize;
    const names = Array.from({ length: count }, (_, i) => (i === 0 ? "likeliest" : `${i + 1}`));
    place.querySelector(".live-steps thead").replaceChildren(header(["step", ...names]));
    const rows =
      beamSize === 1 ? steps.map((step, i) => greedyRow(step, i, written, choose)) : beamRows(steps, written);
    place.querySelector(".live-steps tbody").replaceChildren(...rows);
  }

  Object.assign(LiveTranslator, { drawSteps });
})();
