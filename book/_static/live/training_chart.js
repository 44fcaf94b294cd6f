/* What a run looks like: curves that grow, the numbers that are right, and where the decoder looks. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const { element } = LiveTranslator;
  const HEIGHT = 200;
  const EDGE = { left: 44, right: 12, top: 26, bottom: 42 };

  function shape(name, attributes, text = "") {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) {
      made.setAttribute(key, value);
    }
    made.textContent = text;
    return made;
  }

  /** Three to six round numbers from 0 to the largest. */
  function ticks(largest) {
    const rough = 10 ** Math.floor(Math.log10(largest));
    const wide = [rough / 5, rough / 2, rough, 2 * rough].find((size) => largest / size <= 6);
    return Array.from({ length: Math.floor(largest / wide + 1e-9) + 1 }, (_, i) => i * wide);
  }

  /** Curves of one unit over the steps: [{ points: [[step, value], …], second: whether it is drawn dashed }]. */
  function drawCurves(svg, curves, { across, up, unit, words, floor }) {
    const width = Math.max(svg.parentElement.clientWidth, 240);
    const x = (step) => EDGE.left + ((width - EDGE.left - EDGE.right) * step) / across;
    const y = (value) => HEIGHT - EDGE.bottom - ((HEIGHT - EDGE.bottom - EDGE.top) * Math.min(value, up)) / up;
    const line = (x1, y1, x2, y2, kind) => shape("line", { x1, y1, x2, y2, class: kind });
    const right = width - EDGE.right;
    const rows = ticks(up).flatMap((value) => [
      line(EDGE.left, y(value), right, y(value), "live-rule"),
      shape("text", { x: EDGE.left - 6, y: y(value) + 4, "text-anchor": "end" }, String(+value.toFixed(2))),
    ]);
    const columns = ticks(across).map((step) =>
      shape("text", { x: x(step), y: HEIGHT - 24, "text-anchor": "middle" }, String(step)),
    );
    const titles = [
      shape("text", { x: right, y: HEIGHT - 6, "text-anchor": "end" }, "step →"),
      shape("text", { x: EDGE.left, y: 12 }, `↑ ${unit}`),
    ];
    const lowest = floor ? [line(EDGE.left, y(floor), right, y(floor), "live-floor")] : [];
    const paths = curves.map(({ points, second }) =>
      shape("polyline", {
        points: points.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" "),
        class: second ? "live-curve live-second" : "live-curve",
      }),
    );
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    svg.setAttribute("aria-label", words);
    svg.replaceChildren(...rows, ...columns, ...titles, ...lowest, ...paths);
  }

  /** All numbers in rows of ten: right ones filled, withheld ones with a dashed edge. */
  function drawNumbers(table, isRight, withheld, count) {
    const cell = (number) => {
      const made = element("td", { textContent: String(number) });
      made.className = `${isRight[number] ? "live-right" : ""} ${withheld.has(number) ? "live-withheld" : ""}`;
      return made;
    };
    const rows = Array.from({ length: count / 10 }, (_, row) =>
      element("tr", {}, ...Array.from({ length: 10 }, (_, i) => cell(10 * row + i))),
    );
    const wrong = Array.from({ length: count }, (_, number) => number).filter((number) => !isRight[number]);
    const named = wrong.length <= 12 ? `; wrong: ${wrong.join(", ") || "none"}` : "";
    table.setAttribute("aria-label", `${count - wrong.length} of ${count} numbers right${named}`);
    table.replaceChildren(element("tbody", {}, ...rows));
  }

  /** A table of weights for each head; `first` is the number of the first one. */
  function drawMaps(place, heads, rows, columns, first) {
    if (place.children.length !== heads.length) {
      place.replaceChildren(...heads.map(() => element("table", { className: "live-large" })));
    }
    heads.forEach((matrix, head) =>
      LiveTranslator.drawLarge(place.children[head], matrix, rows, columns, `Head ${first + head}`),
    );
  }

  Object.assign(LiveTranslator, { drawCurves, drawNumbers, drawMaps });
})();
