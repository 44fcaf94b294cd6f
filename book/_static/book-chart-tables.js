/* Below every chart: its numbers as a table, made when a reader asks for them, and as a file. */
"use strict";

const ROWS_SHOWN = 200;

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
