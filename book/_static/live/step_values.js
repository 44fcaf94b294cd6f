/* One tensor as the stepper shows it: a heat map with words on its axes, and what it holds in words and numbers. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const { element, mixed, css, inkOn } = LiveTranslator;
  const FEW = 8; // up to so many columns, each cell of the map has its number
  const COUNT_WORDS = new Set(["source", "target", "length", "queries", "keys"]);

  /** The names along an axis: words where it counts words, the axis itself where it has one place, else numbers. */
  function namesAlong(axis, size, trace) {
    const words = COUNT_WORDS.has(axis) && Object.values(trace.words).find((side) => side.length === size);
    if (words || axis === "vocabulary") {
      return words || trace.vocabulary;
    }
    return size === 1 ? [axis] : Array.from({ length: size }, (_, i) => String(i));
  }

  /** A tensor as matrices: the last two axes are rows and columns, the axis before them chooses the matrix. */
  function matricesOf([name, place, axes], trace) {
    const { shape, type, values } = trace.tensors[place];
    const sizes = [...Array(Math.max(0, 2 - shape.length)).fill(1), ...shape];
    const titles = [...Array(sizes.length - axes.length).fill(name), ...axes];
    const [rows, columns] = sizes.slice(-2);
    const chooser = sizes.slice(0, -2).findIndex((size) => size > 1);
    const rowFrom = (start) => values.slice(start, start + columns);
    const cut = (part) => Array.from({ length: rows }, (_, row) => rowFrom((part * rows + row) * columns));
    return {
      type,
      values,
      axis: titles.at(-1),
      rowNames: namesAlong(titles.at(-2), rows, trace),
      columnNames: namesAlong(titles.at(-1), columns, trace),
      partAxis: titles[chooser] ?? "",
      partNames: chooser < 0 ? [] : namesAlong(titles[chooser], sizes[chooser], trace),
      matrix: cut,
    };
  }

  const isFloat = (type) => type.startsWith("float");
  const minus = (text) => text.replace("-", "−");
  const written = (value, type) => (type === "bool" ? (value ? "True" : "False") : minus(String(value)));
  const rounded = (value, type) => (isFloat(type) ? minus(value.toFixed(3)) : written(value, type));

  function inWords({ type, values, columnNames }) {
    if (type === "bool") {
      return `${values.filter(Boolean).length} of ${values.length} are True.`;
    }
    if (!isFloat(type)) {
      return "Ids of the vocabulary.";
    }
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const [least, most, middle] = [Math.min(...values), Math.max(...values), Number(mean.toPrecision(2))];
    const ends = [least, most, middle].map((value) => written(value, type));
    const legend =
      columnNames.length > FEW
        ? " A positive value fills the upper half of its cell, a negative one the lower half; " +
          "the stronger the colour, the larger."
        : "";
    return `${values.length} values from ${ends[0]} to ${ends[1]}, mean ${ends[2]}.${legend}`;
  }

  /** The colour of a value: from the page's ground to one end for positive values, to another for negative ones. */
  function painter(place, view) {
    const style = getComputedStyle(place);
    const end = (name) => style.getPropertyValue(name).trim().split(" ").map(Number);
    const [zero, above, below] = ["--live-zero", "--live-one", "--step-below"].map(end);
    const most = Math.max(...view.values.map(Math.abs)) || 1;
    return (value) => mixed([zero, value < 0 ? below : above], view.type === "int64" ? 0 : Math.abs(value) / most);
  }

  const heading = (text, scope) => element("th", { scope, textContent: text });

  function tableOf(matrix, rowNames, columnNames, corner, write, paint) {
    const cell = (value) => {
      const made = element("td", { textContent: write(value) });
      if (paint) {
        const colour = paint(value);
        [made.style.backgroundColor, made.style.color] = [css(colour), inkOn(colour)];
      }
      return made;
    };
    const body = matrix.map((row, i) => element("tr", {}, heading(rowNames[i], "row"), ...row.map(cell)));
    const titles = columnNames.map((name) => heading(name, "col"));
    const head = element("tr", {}, element("td", { textContent: corner }), ...titles);
    return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
  }

  /** A row of cells: a positive value fills the upper half of its cell, a negative one the lower half. */
  function strip(row, name, view, paint, readout) {
    const canvas = element("canvas", { width: row.length, height: 2 });
    const context = canvas.getContext("2d");
    row.forEach((value, x) => {
      context.fillStyle = css(paint(value));
      context.fillRect(x, value < 0 ? 1 : 0, 1, 1);
    });
    const largest = row.indexOf(Math.max(...row));
    canvas.setAttribute("role", "img");
    const where = `${view.axis} ${view.columnNames[largest]}`;
    canvas.ariaLabel = `${name}: ${row.length} values, the largest ${row[largest]} at ${where}`;
    const read = (event) => {
      const { left, width } = canvas.getBoundingClientRect();
      const x = Math.max(0, Math.min(row.length - 1, Math.floor(((event.clientX - left) / width) * row.length)));
      readout.textContent = `${name}, ${view.axis} ${view.columnNames[x]}: ${written(row[x], view.type)}`;
    };
    canvas.addEventListener("pointermove", read);
    canvas.addEventListener("pointerdown", read);
    return canvas;
  }

  /** Draw a matrix into the place: numbers in the cells if they are few, else strips. */
  function drawMap(place, view, part) {
    const [matrix, paint] = [view.matrix(part), painter(place, view)];
    if (view.columnNames.length <= FEW) {
      const table = tableOf(matrix, view.rowNames, view.columnNames, "", (value) => rounded(value, view.type), paint);
      const region = element("div", { className: "live-scroll", tabIndex: 0, ariaLabel: "Values" }, table);
      region.setAttribute("role", "region");
      place.replaceChildren(region);
      return;
    }
    const invitation = "Point at a cell, or tap it, to read its value.";
    const readout = element("p", { className: "live-note", textContent: invitation });
    const strips = matrix.flatMap((row, i) => [
      element("span", { textContent: view.rowNames[i] }),
      strip(row, view.rowNames[i], view, paint, readout),
    ]);
    const last = view.columnNames.length - 1;
    const marks = [view.columnNames[0], view.axis, view.columnNames[last]];
    const scale = marks.map((text) => element("span", { textContent: text }));
    const axis = element("div", { className: "step-axis" }, ...scale);
    place.replaceChildren(element("div", { className: "step-strips" }, ...strips, element("span"), axis), readout);
  }

  /** The numbers of a wide matrix, turned, so that it grows downwards. */
  function numbersTable(view, part) {
    const matrix = view.matrix(part);
    const turned = view.columnNames.map((_, x) => matrix.map((row) => row[x]));
    return tableOf(turned, view.columnNames, view.rowNames, view.axis, (value) => written(value, view.type), null);
  }

  Object.assign(LiveTranslator, { matricesOf, inWords, isFloat, drawMap, numbersTable });
})();
