/* What is wider than the screen scrolls in its own box: make that box, and let the keyboard reach it. */
"use strict";

const BOXES =
  ".vega-chart, .cell_output, .cell_output .output, .pst-scrollable-table-container, div.math, mjx-container, pre";

function markScrollable() {
  for (const formula of document.querySelectorAll("mjx-container:not([display])")) {
    const line = formula.closest("p, li, td, th, dd, figcaption");
    formula.classList.toggle("wide", line !== null && formula.scrollWidth > line.clientWidth);
  }
  for (const box of document.querySelectorAll(BOXES)) {
    if (box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).display !== "inline") {
      box.tabIndex = 0;
    }
  }
}

window.addEventListener("load", () => {
  markScrollable();
  window.MathJax?.startup?.promise?.then(markScrollable);
});
window.addEventListener("resize", markScrollable);
document.addEventListener("drawn", markScrollable);
document.addEventListener("toggle", markScrollable, true);
