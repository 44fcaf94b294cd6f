/* What is wider than the screen scrolls in its own box: make that box, and let the keyboard reach it. A formula keeps
   the bracket before it and the comma behind it on its line. */
"use strict";

for (const formula of document.querySelectorAll("span.math")) {
  const [before, after] = [formula.previousSibling, formula.nextSibling];
  const bracket = before?.nodeType === Node.TEXT_NODE && /[([“‘]+$/.exec(before.data);
  const mark = after?.nodeType === Node.TEXT_NODE && /^[.,;:!?)’”]+/.exec(after.data);
  if (!bracket && !mark) continue;
  const whole = document.createElement("span");
  whole.className = "math-and-mark";
  formula.before(whole);
  if (bracket) whole.append(before.splitText(bracket.index));
  whole.append(formula);
  if (mark) {
    after.splitText(mark[0].length);
    whole.append(after);
  }
}

const BOXES =
  ".vega-chart, .chart-data-frame, .cell_output, .cell_output .output, .pst-scrollable-table-container, div.math, " +
  "mjx-container.wide, mjx-container[display], pre";

/* At which edges a box hides a part of itself. */
function markEdges(box) {
  box.classList.toggle("begins-before", box.scrollLeft > 1);
  box.classList.toggle("goes-on", box.scrollLeft + box.clientWidth + 1 < box.scrollWidth);
}

function markScrollable() {
  for (const formula of document.querySelectorAll("mjx-container:not([display])")) {
    const line = formula.closest("p, li, td, th, dd, figcaption");
    formula.classList.toggle("wide", line !== null && formula.scrollWidth > line.clientWidth);
  }
  for (const box of document.querySelectorAll(BOXES)) {
    box.classList.remove("wide-table");
    const wide = box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).display !== "inline";
    box.classList.toggle("wide-table", wide && box.matches(".pst-scrollable-table-container"));
    const high = box.matches(".chart-data-frame") && box.scrollHeight > box.clientHeight + 1;
    if (box.matches("pre, .vega-chart")) markEdges(box);
    if (wide || high) box.tabIndex = 0;
    // Not while the reader stands on it: the focus would be lost.
    else if (box !== document.activeElement) box.removeAttribute("tabindex");
  }
}

window.addEventListener("load", () => {
  markScrollable();
  window.MathJax?.startup?.promise?.then(markScrollable);
});
// The article changes its width with the window, and once more when a bar has slid in or out.
new ResizeObserver(markScrollable).observe(document.querySelector(".bd-article") ?? document.body);
document.addEventListener("drawn", markScrollable);
document.addEventListener("toggle", markScrollable, true);
document.addEventListener("filled", markScrollable);
document.addEventListener("scroll", ({ target }) => target.matches?.("pre, .vega-chart") && markEdges(target), true);

/* A picture that the screen makes smaller opens at its own size. */
document.addEventListener("click", ({ target }) => {
  if (!target.matches(".bd-article :is(.cell_output, figure) img")) return;
  const width = Number(target.getAttribute("width")) || target.naturalWidth;
  if (target.closest("a") || target.clientWidth >= 0.95 * width) return;
  const viewer = document.createElement("dialog");
  viewer.className = "picture";
  viewer.append(target.cloneNode());
  viewer.addEventListener("click", () => viewer.close());
  // The theme keeps Escape for its own search.
  viewer.addEventListener("keydown", ({ key }) => key === "Escape" && viewer.close());
  viewer.addEventListener("close", () => viewer.remove());
  document.body.append(viewer);
  viewer.showModal();
});

/* The theme listens on the first button of each bar, which these pages never show; the one they show is another. */
for (const bar of ["primary", "secondary"]) {
  const [wired, ...shown] = document.querySelectorAll(`.${bar}-toggle`);
  for (const button of shown) button.addEventListener("click", () => wired.click());
}
