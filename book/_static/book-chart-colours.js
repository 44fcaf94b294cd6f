/* The charts in the page's own colours. Chapters write a chart once, for white paper; this file says what each of
   their colours becomes on the dark page. A colour that is not listed here fails tests/site/test_site_charts.py. */
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
};

// --book-card of the dark scheme in book.css.
const DARK_CARD = "#1a2027";

/* The blue scale of the heat maps. Text in a cell changes between black and white where heat_map in
   transformer_lib/plots.py says; there the scale makes a small step, so that neither is ever hard to read. */
const TEXT_CHANGES_AT = 0.72;
const SCALES = {
  "book-blues-light": [["#d6e6f4", "#92c3df", "#3d8fc4"], ["#2a79b8", "#1a5ca3", "#0a4a90"]],
  "book-blues-dark": [["#1f2c38", "#224361", "#2f6aa2"], ["#4287c3", "#7fbbe9", "#c4e4fb"]],
};

/* The ground on which a chart stands, and what its axes, titles and legends are drawn with. */
const INKS = {
  light: { ink: "#1f2933", line: "#7b8794", grid: "#e4e7eb", mark: "#0072b2" },
  dark: { ink: "#dfe5ec", line: "#8d98a5", grid: "#2f3944", mark: "#4fb0e8" },
};

for (const [name, halves] of Object.entries(SCALES)) {
  const [little, much] = halves.map((half) => vega.interpolateColors(half));
  vega.scheme(name, (share) =>
    share <= TEXT_CHANGES_AT
      ? little(share / TEXT_CHANGES_AT)
      : much((share - TEXT_CHANGES_AT) / (1 - TEXT_CHANGES_AT)),
  );
}

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
    text: { color: ink, fontSize: 12 },
    title: { anchor: "start", color: ink, fontSize: 14, offset: 8, subtitleColor: ink },
    view: { stroke: null },
  };
}

/* A colour in the page's theme. A white stroke is a gap between marks or a halo around letters: it takes the colour of
   the dark card. */
function themedColour(text, name, theme) {
  if (name === "scheme") return text === "blues" ? `book-blues-${theme}` : text;
  if (theme === "light") return text;
  if (name === "stroke" && text === "white") return DARK_CARD;
  return DARK_COLOURS[text] ?? text.replace(/#[0-9a-f]{6}\b/gi, (found) => DARK_COLOURS[found] ?? found);
}

/* The same value with every colour in it exchanged; data stay as they are. */
function recoloured(value, theme, name) {
  if (Array.isArray(value)) return value.map((part) => recoloured(part, theme));
  if (typeof value === "string") return themedColour(value, name, theme);
  if (value === null || typeof value !== "object") return value;
  const kept = ["data", "datasets"];
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, kept.includes(key) ? part : recoloured(part, theme, key)]),
  );
}

/* A specification as the page's theme wants it. The card around the chart, not the chart, has a ground. */
function themedSpec(spec, theme) {
  const themed = recoloured(spec, theme);
  themed.config = vega.mergeConfig(chartConfig(theme), themed.config ?? {});
  themed.config.background = "transparent";
  return themed;
}
