/* The weights of every head as small maps, and the chosen one large, with its numbers. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const KINDS = [
    ["encoder.", ".self", "Encoder, self-attention", "source tokens look at source tokens"],
    ["decoder.", ".self", "Decoder, self-attention", "each step looks at what has been read so far"],
    ["decoder.", ".cross", "Decoder, cross-attention", "each step looks at the source"],
  ];
  const isOf = (name, [start, end]) => name.startsWith(start) && name.endsWith(end);
  const layerOf = (name) => `layer ${Number(name.split(".")[1]) + 1}`;

  /** The model counts layers and heads from 0, a reader from 1: `decoder.1.cross` is "Decoder, cross-attention, layer 2". */
  const attentionIn = (name) => `${KINDS.find((kind) => isOf(name, kind))[2]}, ${layerOf(name)}`;
  const headIn = (name, head) => `${attentionIn(name)}, head ${Number(head) + 1}`;

  /** The tokens of the rows and of the columns, as attention_axes of the library has them. */
  function axes(name, source, written) {
    const read = ["<bos>", ...written.slice(0, -1)];
    const steps = written.map((token, i) => `${read[i]} → ${token}`);
    if (name.startsWith("encoder.")) {
      return [source, source];
    }
    return name.endsWith(".self") ? [steps, read] : [steps, source];
  }

  function colours(element) {
    const style = getComputedStyle(element);
    const parse = (name) => style.getPropertyValue(name).trim().split(" ").map(Number);
    return [parse("--live-zero"), parse("--live-one")];
  }

  const mixed = ([zero, one], weight) => zero.map((value, i) => Math.round(value + (one[i] - value) * weight));
  const css = (rgb) => `rgb(${rgb.join(" ")})`;

  /** Black or white, whichever can be read on this colour. */
  function inkOn(rgb) {
    const [r, g, b] = rgb.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
  }

  function drawSmall(canvas, matrix, ends) {
    [canvas.height, canvas.width] = [matrix.length, matrix[0].length];
    const context = canvas.getContext("2d");
    matrix.forEach((row, y) =>
      row.forEach((weight, x) => {
        context.fillStyle = css(mixed(ends, weight));
        context.fillRect(x, y, 1, 1);
      }),
    );
  }

  function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  function choiceOf(name, head, checked) {
    const words = headIn(name, head);
    const radio = element("input", { type: "radio", name: "live-head", value: `${name}/${head}`, checked });
    radio.setAttribute("aria-label", words);
    return element("label", { className: "live-head", title: words }, radio, element("canvas"), `head ${head + 1}`);
  }

  /** Radio buttons that are maps; one group, so that arrow keys go from head to head. */
  function buildGrid(place, attention, chosen) {
    const groups = KINDS.map((kind) => {
      const names = Object.keys(attention).filter((name) => isOf(name, kind));
      const rows = names.map((name) => {
        const heads = attention[name].map((_, head) => choiceOf(name, head, `${name}/${head}` === chosen));
        return element("div", { className: "live-layer" }, element("b", { textContent: layerOf(name) }), ...heads);
      });
      return element("fieldset", { className: "live-kind" }, element("legend", { textContent: `${kind[2]}: ${kind[3]}` }), ...rows);
    });
    place.replaceChildren(...groups);
  }

  function drawGrid(place, attention) {
    const ends = colours(place);
    for (const radio of place.querySelectorAll("input")) {
      const [name, head] = radio.value.split("/");
      drawSmall(radio.parentElement.querySelector("canvas"), attention[name][head], ends);
    }
  }

  /** Say on the map of each head whether it is off. */
  function markHeads(place, { gates }) {
    for (const radio of place.querySelectorAll("input")) {
      const [name, head] = radio.value.split("/");
      const off = gates[name][head] === 0;
      radio.parentElement.classList.toggle("live-off", off);
      radio.parentElement.lastChild.textContent = `head ${Number(head) + 1}${off ? " off" : ""}`;
      radio.setAttribute("aria-label", `${headIn(name, head)}${off ? ", off" : ""}`);
    }
  }

  const percent = (weight) => (100 * weight).toFixed(0);
  const heading = (text, scope) => {
    const cell = element("th", { scope });
    cell.append(element("span", { textContent: text }));
    return cell;
  };

  function drawLarge(table, matrix, rows, columns, words) {
    const ends = colours(table);
    const cells = (row) =>
      [...row].map((weight) => {
        const cell = element("td", { textContent: percent(weight) });
        const colour = mixed(ends, weight);
        [cell.style.backgroundColor, cell.style.color] = [css(colour), inkOn(colour)];
        return cell;
      });
    const head = element("tr", {}, element("td"), ...columns.map((text) => heading(text, "col")));
    const body = matrix.map((row, i) => element("tr", {}, heading(rows[i], "row"), ...cells(row)));
    const caption = element("caption", { textContent: `${words}: weights in percent` });
    table.replaceChildren(caption, element("thead", {}, head), element("tbody", {}, ...body));
  }

  function drawMost(table, matrix, rows, columns) {
    const most = matrix.map((row) => row.indexOf(Math.max(...row)));
    const body = most.map((place, i) =>
      element(
        "tr",
        {},
        heading(rows[i], "row"),
        element("td", { textContent: columns[place] }),
        element("td", { textContent: `${percent(matrix[i][place])} %` }),
      ),
    );
    const head = element("tr", {}, ...["token", "looks most at", "weight"].map((text) => heading(text, "col")));
    const caption = element("caption", { textContent: "The same in words: what each token looks at most" });
    table.replaceChildren(caption, element("thead", {}, head), element("tbody", {}, ...body));
  }

  const shared = { axes, buildGrid, drawGrid, markHeads, drawLarge, drawMost, attentionIn, headIn, element, mixed, css, inkOn };
  Object.assign(LiveTranslator, shared);
})();
