/* Below every chart: its numbers as a table, made when a reader asks for them, and as a file. */
"use strict";

const ROWS_SHOWN = 200;

/* The datasets that marks are drawn from, as the compiled specification names them. */
function drawnDatasets(marks, parents = {}) {
  return (marks ?? []).flatMap((mark) => {
    const facet = mark.from?.facet;
    const source = facet?.data ?? mark.from?.data;
    const own = source ? [parents[source] ?? source] : [];
    const inner = facet ? { ...parents, [facet.name]: own[0] } : parents;
    return mark.type === "group" ? [...own, ...drawnDatasets(mark.marks, inner)] : own;
  });
}

function definitions(encoding) {
  return Object.entries(encoding ?? {}).flatMap(([channel, definition]) =>
    [definition].flat().flatMap((one) => [one, one?.condition].flat().filter((part) => part?.field).map((part) => [channel, part])),
  );
}

/* What a channel of a unit says about its field. An area or a bar from one field to another has one title for both:
   they are told apart by their names. */
function described(unit, channel, part) {
  const title = part.title ?? part.axis?.title ?? part.legend?.title;
  const axis = channel[0];
  const partner = unit.encoding[`${axis}2`]?.field && unit.encoding[axis];
  const shared = partner?.title ?? partner?.axis?.title;
  const name = /^[xy]2?$/.test(channel) && shared ? `${shared}: ${spelled(part.field)}` : title;
  return { title: name, label: part.axis?.labelExpr, number: part.type === "quantitative" };
}

function spelled(field) {
  return field.replaceAll("_", " ");
}

/* The fields of a chart with their titles, what is counted before what is measured. A place where words are written
   and the order of a line are no facts of their own. */
function namedFields(spec) {
  const fields = new Map();
  for (const unit of units(spec)) {
    const type = unit.mark?.type ?? unit.mark;
    for (const [channel, part] of definitions(unit.encoding)) {
      if (channel === "order" || (type === "text" && /^[xy]/.test(channel))) continue;
      const known = fields.get(part.field) ?? { field: part.field };
      const { title, label, number } = described(unit, channel, part);
      known.title ??= title;
      known.label ??= label;
      known.number ??= number || channel.endsWith("2");
      fields.set(part.field, known);
    }
  }
  const named = [...fields.values()].map((known) => ({ ...known, title: known.title ?? spelled(known.field) }));
  return [...named.filter((known) => !known.number), ...named.filter((known) => known.number)];
}

/* The words that an axis shows for the values of a field, by the chart's own rule and its controls as they stand. */
function axisLabels(values, expression, chart) {
  const signals = controlNames(chart.result).map((name) => ({ name, value: chart.result.view.signal(name) }));
  const data = [{ name: "labels", values: values.map((value) => ({ value })) }];
  data[0].transform = [{ type: "formula", as: "text", expr: expression }];
  const view = new vega.View(vega.parse({ signals, data })).run();
  const labels = view.data("labels").map((row) => row.text);
  view.finalize();
  return labels;
}

function column(rows, known, chart) {
  const values = rows.map((row) => row[known.field]);
  return { title: known.title, cells: known.label ? axisLabels(values, known.label, chart) : values };
}

/* The columns of a dataset; of two with one title, such as a number and its name, the first. */
function columns(rows, chart) {
  const present = namedFields(chart.spec).filter((known) => rows.some((row) => row[known.field] !== undefined));
  const titles = new Set();
  return present
    .filter((known) => !titles.has(known.title) && titles.add(known.title))
    .map((known) => column(rows, known, chart));
}

/* The rows of a table as text, each once; and the same rows with the columns of another table only. */
function lines(table, titles = table.map((part) => part.title)) {
  const kept = titles.map((title) => table.find((part) => part.title === title));
  return new Set(table[0].cells.map((_, i) => JSON.stringify(kept.map((part) => part?.cells[i] ?? null))));
}

/* Whether another table says all that this one says: layers often draw a part of the same data once more. */
function contained(table, other) {
  const titles = table.map((part) => part.title);
  if (!titles.every((title) => other.some((part) => part.title === title))) return false;
  const has = lines(other, titles);
  return [...lines(table, titles)].every((line) => has.has(line));
}

function withoutRepetition(table) {
  const rows = [...lines(table)].map((line) => JSON.parse(line));
  return table.map((part, j) => ({ title: part.title, cells: rows.map((row) => row[j]) }));
}

/* Tables with the same columns, one from each panel, as one table that numbers the panels. */
function stacked(all) {
  const groups = new Map();
  for (const table of all) {
    const titles = JSON.stringify(table.map((part) => part.title));
    groups.set(titles, [...(groups.get(titles) ?? []), table]);
  }
  return [...groups.values()].map((group) => {
    if (group.length === 1) return group[0];
    const numbers = group.flatMap((table, i) => table[0].cells.map(() => i + 1));
    const joined = group[0].map(({ title }, j) => ({ title, cells: group.flatMap((table) => table[j].cells) }));
    return [{ title: "panel", cells: numbers }, ...joined];
  });
}

/* One table for each dataset of a chart, but for generated ones: those draw outlines. */
function tables(chart) {
  const generated = (name) => name.startsWith("sequence");
  const names = [...new Set(drawnDatasets(chart.result.vgSpec.marks))].filter((name) => !generated(name));
  const found = names.map((name) => columns(chart.result.view.data(name), chart)).filter((table) => table.length);
  const own = found.filter((table, i) =>
    found.every((other, j) => i === j || !contained(table, other) || (j > i && contained(other, table))),
  );
  return stacked(own.map(withoutRepetition));
}

function written(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function tableElement(table, caption) {
  const made = element("table", undefined, { class: "table" });
  made.append(element("caption", caption));
  const head = made.createTHead().insertRow();
  for (const { title } of table) head.append(element("th", title, { scope: "col" }));
  const body = made.createTBody();
  for (let i = 0; i < Math.min(table[0].cells.length, ROWS_SHOWN); i++) {
    const row = body.insertRow();
    table.forEach(({ cells }, j) => row.append(element(j ? "td" : "th", written(cells[i]), j ? {} : { scope: "row" })));
  }
  return made;
}

function csv(table) {
  const quoted = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : (value ?? ""));
  const rows = table[0].cells.map((_, i) => table.map(({ cells }) => quoted(cells[i])).join(","));
  return [table.map(({ title }) => quoted(title)).join(","), ...rows].join("\r\n");
}

function saveButton(table, name) {
  const button = element("button", "Save as CSV", { type: "button", class: "chart-data-save" });
  button.addEventListener("click", () => {
    // A byte-order mark tells spreadsheets that the file is UTF-8.
    const address = URL.createObjectURL(new Blob(["\ufeff", csv(table)], { type: "text/csv" }));
    element("a", undefined, { href: address, download: `${name}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  });
  return button;
}

function captionOf(chart, table, number, count) {
  const rows = table[0].cells.length;
  const title = [chart.spec.title?.text ?? chart.spec.title ?? "Chart"].flat().join(" ");
  const part = count > 1 ? ` (${number} of ${count})` : "";
  const state = controlNames(chart.result).length ? ", with the controls as they stand" : "";
  const cut = rows > ROWS_SHOWN ? `; the first ${ROWS_SHOWN} of ${rows} rows, all of them in the file` : "";
  return `${title}${part}${state}${cut}`;
}

function fill(box, chart) {
  const all = tables(chart);
  const parts = all.flatMap((table, i) => {
    const caption = captionOf(chart, table, i + 1, all.length);
    const frame = element("div", undefined, { class: "chart-data-frame", role: "group", "aria-label": caption });
    frame.append(tableElement(table, caption));
    const name = caption.split(",")[0].toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-");
    return [frame, saveButton(table, name)];
  });
  box.replaceChildren(box.querySelector("summary"), ...parts);
  box.dispatchEvent(new CustomEvent("filled", { bubbles: true }));
}

/* The closed box below a chart. It fills when it opens, and again when a control moves while it is open. */
function dataBox(chart) {
  const box = element("details", undefined, { class: "chart-data" });
  box.append(element("summary", "Data of this chart"));
  box.addEventListener("toggle", () => box.open && fill(box, chart));
  return box;
}

function follow(box, chart) {
  let waiting = 0;
  const again = () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => box.open && fill(box, chart));
  };
  for (const name of controlNames(chart.result)) chart.result.view.addSignalListener(name, again);
}

document.addEventListener("drawn", ({ target, detail: chart }) => {
  chart.box ??= target.insertAdjacentElement("afterend", dataBox(chart));
  follow(chart.box, chart);
});
