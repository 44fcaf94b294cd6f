/* Draw each chart from the specification inside its place, in the page's theme, no wider than its place where the
   chart allows it. Vega and the files of the colours and the tables are loaded before this one, from this site. */
"use strict";

const CHARTS = new Map();
// Below this width of the plot a chart says nothing; it scrolls in its box instead. A chart whose words would run into
// each other names a width of its own: `.properties(usermeta={"narrowest": 448})`.
const NARROWEST_PLOT = 140;
// Panels are drawn smaller as a whole, down to this share; below it their letters of 12 pixels cannot be read.
const SMALLEST_SCALE = 11 / 12;
// A cell of a map without its number.
const NARROWEST_CELL = 12;

/* The parts of a specification that draw: layers, panels, or the whole. */
function units(spec) {
  const parts = spec.layer ?? spec.hconcat ?? spec.vconcat ?? spec.concat;
  return parts ? parts.flatMap((part) => units({ ...part, encoding: { ...spec.encoding, ...part.encoding } })) : [spec];
}

/* The lengths of the words of a part of a drawing, in letters. */
function lengths(result, part) {
  return [...result.canvas.querySelectorAll(`${part} text`)].map((text) => text.textContent.length);
}

/* The chart with its plot narrower by so many pixels, or nothing where that leaves a plot that says nothing. Cells that
   become narrower than the numbers in them, of 7 pixels a letter, lose these and get outlines that stand out from the
   card; the table below has the numbers. Panels have no one width. */
function narrowed(spec, excess, result) {
  const isCell = ({ encoding, mark }) =>
    ["ordinal", "nominal"].includes(encoding?.x?.type) && (mark.type ?? mark) === "rect";
  const columns = units(spec).some(isCell) ? lengths(result, '[aria-label^="X-axis"] .role-axis-label') : [];
  const numbers = lengths(result, ".mark-text.role-mark");
  const cells = columns.length * (7 * Math.max(...(numbers.length ? numbers : columns)) + 2);
  const least = spec.usermeta?.narrowest ?? (columns.length ? cells : NARROWEST_PLOT);
  const step = spec.width?.step;
  const width = Math.floor((step ? step * columns.length : spec.width) - excess);
  const isNumber = ({ mark }) => (mark?.type ?? mark) === "text";
  const canLose = !spec.usermeta?.narrowest && spec.layer?.some(isNumber) && width >= NARROWEST_CELL * columns.length;
  if (width < least && !(columns.length && canLose)) return null;
  const outlined = (layer) => (isCell(layer) ? { ...layer, mark: { ...layer.mark, stroke: "#7b8794" } } : layer);
  const bare = () => ({ layer: spec.layer.filter((layer) => !isNumber(layer)).map(outlined) });
  const kept = width < least ? bare() : {};
  return { ...spec, ...kept, width: step ? { step: Math.floor(width / columns.length) } : width };
}

/* A title of several lines where one is wider than the plot; a letter is about 8 pixels wide. */
function wrapped(title, width) {
  const lines = [""];
  for (const word of String(title).split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (longer.length * 8 > width && lines.at(-1)) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

/* The chart with its title in lines, its legend below, and only as many panels in a row as the room holds. */
function folded(spec, room, result) {
  const entry = 40 + 7 * Math.max(...lengths(result, ".role-legend-label"));
  const below = { orient: "bottom", columns: Math.max(1, Math.min(3, Math.floor((room - 80) / entry))) };
  const moved = (key, value) => (key === "legend" && value ? { ...value, ...below } : value);
  const { hconcat, config, ...whole } = JSON.parse(JSON.stringify(spec, moved));
  const panels = hconcat && { concat: hconcat, columns: Math.floor((hconcat.length * room) / widthOf(result)) || 1 };
  const title = typeof spec.title === "object" ? spec.title : { text: spec.title ?? "" };
  return {
    ...whole,
    ...panels,
    config: { ...config, padding: 4, legend: { ...config?.legend, ...below } },
    title: { ...title, text: wrapped(title.text, room - 20) },
  };
}

/* The controls of a chart: signals that an input sets. */
function controlNames(result) {
  return (result.vgSpec.signals ?? []).filter((signal) => signal.bind).map((signal) => signal.name);
}

async function embedded(place, spec, theme) {
  const canvas = document.createElement("div");
  const options = { mode: "vega-lite", actions: false, renderer: "svg", tooltip: { theme } };
  const result = await vegaEmbed(canvas, themedSpec(spec, theme), options);
  result.canvas = canvas;
  return result;
}

function widthOf(result) {
  return parseFloat(result.canvas.querySelector("svg").getAttribute("width"));
}

/* Draw, and draw again without what sticks out of the place: folded, then with a narrower plot, then smaller. */
async function fitted(place, spec, theme) {
  const style = getComputedStyle(place);
  const room = place.parentElement.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 2;
  let result = await embedded(place, spec, theme);
  const redraw = async (shape) => {
    result.finalize();
    result = await embedded(place, shape, theme);
  };
  if (widthOf(result) <= room) return result;
  const narrow = folded(spec, room, result);
  await redraw(narrow);
  const narrower = widthOf(result) > room && narrowed(narrow, widthOf(result) - room, result);
  if (narrower) await redraw(narrower);
  const scale = room / widthOf(result);
  const svg = result.canvas.querySelector("svg");
  if (SMALLEST_SCALE <= scale && scale < 1) Object.assign(svg.style, { height: "auto", width: `${room}px` });
  return result;
}

/* What the reader has set, and which control has the focus, outlives a new drawing. */
async function restore(chart, before) {
  if (!before) return;
  const names = controlNames(before);
  const values = names.map((name) => before.view.signal(name));
  names.forEach((name, i) => chart.result.view.signal(name, values[i]));
  await chart.result.view.runAsync();
  const inputs = (result) => [...result.canvas.querySelectorAll("input, select")];
  const focused = inputs(before).indexOf(document.activeElement);
  before.canvas.replaceWith(chart.result.canvas);
  if (focused >= 0) inputs(chart.result)[focused]?.focus();
  before.finalize();
}

function complain(place, error) {
  const message = document.createElement("p");
  message.className = "error";
  message.textContent = `The chart could not be drawn: ${error.message}`;
  place.append(message);
  console.error(error);
}

/* The chart as its reader has set it: another sentence has other columns. */
function asSet({ spec, result }) {
  const names = result ? controlNames(result) : [];
  const set = (param) => (names.includes(param.name) ? { ...param, value: result.view.signal(param.name) } : param);
  return { ...spec, ...(spec.params && { params: spec.params.map(set) }) };
}

/* Draw again where a control has made the chart wider than its place, which cells of a fixed width do. */
function watch(place, result) {
  const grown = () => place.scrollWidth > place.clientWidth && draw(place);
  const isMap = typeof result.vgSpec.width !== "number";
  const names = isMap ? controlNames(result) : [];
  names.forEach((name) => result.view.addSignalListener(name, () => requestAnimationFrame(grown)));
}

async function draw(place) {
  const chart = CHARTS.get(place);
  const theme = pageTheme();
  const turn = (chart.turn = (chart.turn ?? 0) + 1);
  try {
    const result = await fitted(place, asSet(chart), theme);
    if (turn !== chart.turn) return result.finalize(); // A later drawing has begun.
    const before = chart.result;
    chart.result = result;
    if (before) await restore(chart, before);
    else place.append(result.canvas);
    watch(place, result);
    place.dataset.drawn = theme;
    place.dispatchEvent(new CustomEvent("drawn", { bubbles: true, detail: chart }));
  } catch (error) {
    complain(place, error);
  }
}

function drawAll() {
  for (const place of CHARTS.keys()) draw(place);
}

for (const place of document.querySelectorAll(".vega-chart")) {
  CHARTS.set(place, { spec: JSON.parse(place.querySelector("script").textContent) });
}
drawAll();

new MutationObserver(() => {
  if ([...CHARTS.keys()].some((place) => place.dataset.drawn !== pageTheme())) drawAll();
}).observe(document.documentElement, { attributeFilter: ["data-theme"] });

let drawnWidth = window.innerWidth;
window.addEventListener("resize", () => {
  clearTimeout(window.bookRedraw);
  window.bookRedraw = setTimeout(() => {
    // A phone's browser also reports the height that its address bar takes and gives.
    if (window.innerWidth !== drawnWidth) drawAll();
    drawnWidth = window.innerWidth;
  }, 150);
});
