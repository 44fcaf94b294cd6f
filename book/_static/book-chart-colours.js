/* The charts in the page's own colours. Chapters write a chart once, for white paper; this file says what each of
   their colours becomes on the dark page. A colour that is not listed here fails tests/test_site_charts.py. */
"use strict";

/* Paper and ink change places, so that what was written for white paper keeps its sense: white text in a dark cell
   becomes black text in a bright one. Each pair keeps 3:1 with the card for marks and 4.5:1 for text. */
const DARK_COLOURS = {
  white: "#0a0d11",
  "#ffffff": "#0a0d11",
  "#0b0b0b": "#f7f9fb",
  "#1f2933": "#dfe5ec",
  "#0072b2": "#4fb0e8",
  "#d55e00": "#ff8f3f",
  "#009e73": "#35c796",
  "#cc79a7": "#e8a0c8",
  "#8c7400": "#e0c63c",
  "#0b3c5d": "#a8d5f5",
  "#f0b27a": "#d9944f",
  "#9ecae1": "#2a6288",
  "#cfe6f5": "#24435a",
  "#52606d": "#a3adb8",
  "#7b8794": "#8d98a5",
  "#8a94a0": "#8d98a5",
  "#d5dae0": "#10151a",
  "#d9dee3": "#3a4551",
  "#e4e7eb": "#2f3944",
  blues: "book-blues-dark",
};

// --book-card of the dark scheme in book.css.
const DARK_CARD = "#1a2027";

/* Dark for little, bright for much. Nowhere are both black and white text hard to read: cells of up to 0.72 are dark
   enough for white, the others bright enough for black, which is where heat_map in transformer_lib/plots.py changes. */
const DARK_BLUES = [
  "#1f2c38", "#203344", "#213b52", "#224361", "#244c70", "#27557f", "#2b5f90", "#3069a1", "#4391ca", "#7fbbe9", "#c4e4fb",
];

/* The ground on which a chart stands, and what its axes, titles and legends are drawn with. */
const INKS = {
  light: { ink: "#1f2933", line: "#7b8794", grid: "#e4e7eb", mark: "#0072b2" },
  dark: { ink: "#dfe5ec", line: "#8d98a5", grid: "#2f3944", mark: "#4fb0e8" },
};

vega.scheme("book-blues-dark", vega.interpolateColors(DARK_BLUES));

function pageTheme() {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

/* What a chart looks like where its own specification does not say. */
function chartConfig(theme) {
  const { ink, line, grid, mark } = INKS[theme];
  const words = { labelColor: ink, titleColor: ink, labelFontSize: 12, titleFontSize: 12 };
  return {
    font: getComputedStyle(document.body).getPropertyValue("--book-sans").trim() || "sans-serif",
    axis: { ...words, domainColor: line, gridColor: grid, tickColor: line },
    legend: { ...words, labelLimit: 0 },
    mark: { color: mark },
    rule: { color: ink },
    text: { color: ink },
    title: { anchor: "start", color: ink, fontSize: 14, subtitleColor: ink },
    view: { stroke: null },
  };
}

/* The same value with every colour in it exchanged; data stay as they are. A white stroke is a gap between marks or a
   halo around letters: it takes the card's colour. */
function recoloured(value, name) {
  if (Array.isArray(value)) return value.map((part) => recoloured(part));
  if (typeof value === "string") {
    if (name === "stroke" && value === "white") return DARK_CARD;
    return DARK_COLOURS[value] ?? value.replace(/#[0-9a-f]{6}\b/gi, (found) => DARK_COLOURS[found] ?? found);
  }
  if (value === null || typeof value !== "object") return value;
  const kept = ["data", "datasets"];
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, kept.includes(key) ? part : recoloured(part, key)]),
  );
}

/* A specification as the page's theme wants it. The card around the chart, not the chart, has a ground. */
function themedSpec(spec, theme) {
  const themed = theme === "dark" ? recoloured(spec) : structuredClone(spec);
  themed.config = vega.mergeConfig(chartConfig(theme), themed.config ?? {});
  themed.config.background = "transparent";
  return themed;
}
