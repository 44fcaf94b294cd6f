/* The numbers behind a chart as columns with titles: what the marks are drawn from, after every filter and control. */
"use strict";

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

/* The columns of a dataset. Of two with one title, such as a place and its word, the first is enough where both say
   the same; where they differ, their fields' names tell them apart. */
function columns(rows, chart) {
  const made = new Map();
  for (const known of namedFields(chart.spec)) {
    if (!rows.some((row) => row[known.field] !== undefined)) continue;
    const part = column(rows, known, chart);
    const same = made.get(part.title);
    if (same && JSON.stringify(same.cells) === JSON.stringify(part.cells)) continue;
    if (same) part.title = `${part.title} (${spelled(known.field)})`;
    made.set(part.title, part);
  }
  return [...made.values()];
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

/* Whether a dataset was computed from nothing but a row of numbers: such ones draw outlines. */
function generated(name, datasets) {
  const one = datasets.find((dataset) => dataset.name === name);
  const made = one?.transform?.some((step) => step.type === "sequence");
  return made || (typeof one?.source === "string" && generated(one.source, datasets));
}

/* One table for each dataset of a chart that is not part of another. */
function tables(chart) {
  const { data, marks } = chart.result.vgSpec;
  const names = [...new Set(drawnDatasets(marks))].filter((name) => !generated(name, data ?? []));
  const found = names.map((name) => columns(chart.result.view.data(name), chart)).filter((table) => table.length);
  const own = found.filter((table, i) =>
    found.every((other, j) => i === j || !contained(table, other) || (j > i && contained(other, table))),
  );
  return stacked(own.map(withoutRepetition));
}
