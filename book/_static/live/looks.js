/* Words read on the left, words written on the right, and a line for each look: as thick as its weight. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const FAINT = 4; // percent; a weight below it gets no line

  const made = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  function lineOf(row, column, percent, isFaded) {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const places = { x1: 0, y1: 10 * column + 5, x2: 100, y2: 10 * row + 5 };
    const look = { "stroke-width": 1 + percent * 0.06, "stroke-opacity": (isFaded ? 0.15 : 0.3) + percent * (isFaded ? 0.001 : 0.007) };
    for (const [key, value] of Object.entries({ ...places, ...look })) {
      line.setAttribute(key, value);
    }
    return line;
  }

  /** What a row says of its look: the word with the largest weight. */
  function shareOf(read, shares) {
    const most = Math.max(...shares);
    const word = made("b", { lang: "en", textContent: read[shares.indexOf(most)] });
    const verb = made("span", { textContent: "looks at" });
    const percent = made("span", { className: "first-percent", textContent: ` ${most}\u00a0%` });
    return made("span", { className: "first-share" }, verb, " ", word, percent);
  }

  /** Draw `count` of the words written; `chosen` is the row that stands out, or -1 for all of them.

      found: { read, written, weights: percent by row and column }; choose(row) is called when a word is pressed. */
  function drawLooks(place, { read, written, weights }, count, chosen, choose) {
    const at = (selector) => place.querySelector(selector);
    const bright = (row) => chosen < 0 || row === chosen;
    const height = 10 * Math.max(read.length, written.length);
    at(".first-lines").setAttribute("viewBox", `0 0 100 ${height}`);
    at(".first-lines").style.height = `calc(${height / 10} * var(--first-row))`;
    at(".first-lines").replaceChildren(
      ...weights.slice(0, count).flatMap((shares, row) =>
        shares.flatMap((percent, column) =>
          percent < FAINT ? [] : [lineOf(row, column, percent, !bright(row))],
        ),
      ),
    );
    at(".first-read").replaceChildren(
      ...read.map((word, column) => {
        const percent = chosen >= 0 && chosen < count ? weights[chosen][column] : 0;
        const item = made("li", { textContent: word });
        item.style.setProperty("--share", `${percent}%`);
        item.classList.toggle("first-seen", percent >= 50);
        return item;
      }),
    );
    const focused = [...at(".first-rows").querySelectorAll("button")].indexOf(document.activeElement);
    at(".first-rows").replaceChildren(
      ...written.map((word, row) => {
        if (row >= count) {
          return made("li", { className: "first-open", textContent: "\u00a0" });
        }
        const button = made("button", { type: "button", className: "first-word", lang: "de", textContent: word });
        button.setAttribute("aria-pressed", String(row === chosen));
        button.addEventListener("click", () => choose(row === chosen ? -1 : row));
        const paper = made("span", { className: "first-word first-paper", lang: "de", textContent: word });
        const item = made("li", {}, button, paper, " ", shareOf(read, weights[row]));
        item.classList.toggle("first-faded", !bright(row));
        return item;
      }),
    );
    at(`.first-rows li:nth-child(${focused + 1}) button`)?.focus();
  }

  Object.assign(LiveTranslator, { drawLooks });
})();
