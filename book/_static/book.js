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
  "span.math.wide, pre";

const SHADED = "pre, .vega-chart, .math, .pst-scrollable-table-container";

/* At which edges a box hides a part of itself. */
function markEdges(box) {
  box.classList.toggle("begins-before", box.scrollLeft > 1);
  box.classList.toggle("goes-on", box.scrollLeft + box.clientWidth + 1 < box.scrollWidth);
}

function markScrollable() {
  offerLarge();
  for (const formula of document.querySelectorAll("span.math")) {
    const line = formula.closest("p, li, td, th, dd, figcaption");
    const width = formula.firstElementChild?.getBoundingClientRect().width ?? 0;
    const isWide = line !== null && width > line.clientWidth;
    formula.classList.toggle("wide", isWide);
    if (!isWide) formula.classList.remove("goes-on", "begins-before"); // after a narrower window
  }
  for (const box of document.querySelectorAll(BOXES)) {
    box.classList.remove("wide-table");
    const wide = box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).display !== "inline";
    box.classList.toggle("wide-table", wide && box.matches(".pst-scrollable-table-container"));
    const high = box.matches(".chart-data-frame") && box.scrollHeight > box.clientHeight + 1;
    if (box.matches(SHADED)) markEdges(box);
    if (wide || high) box.tabIndex = 0;
    // Not while the reader stands on it: the focus would be lost.
    else if (box !== document.activeElement) box.removeAttribute("tabindex");
  }
}

window.addEventListener("load", markScrollable);
// The article changes its width with the window, and once more when a bar has slid in or out.
new ResizeObserver(markScrollable).observe(document.querySelector(".bd-article") ?? document.body);
document.addEventListener("drawn", markScrollable);
document.addEventListener("toggle", markScrollable, true);
document.addEventListener("filled", markScrollable);
document.addEventListener("scroll", ({ target }) => target.matches?.(SHADED) && markEdges(target), true);

/* A picture that the screen makes smaller opens on the whole screen, by a tap on it or by the button below it. */
const PICTURES = ".bd-article :is(.cell_output, figure) img";

function isShrunk(picture) {
  const width = Number(picture.getAttribute("width")) || picture.naturalWidth;
  return !picture.closest("a") && picture.clientWidth > 0 && picture.clientWidth < 0.95 * width;
}

function enlarge(picture) {
  const viewer = document.createElement("dialog"), close = document.createElement("button");
  viewer.className = "picture";
  const hint = document.createElement("p");
  viewer.setAttribute("aria-label", "Picture");
  close.textContent = "Close";
  hint.textContent = "Drag to see the rest.";
  viewer.append(close, hint, picture.cloneNode());
  viewer.addEventListener("click", () => viewer.close());
  // The theme keeps Escape for its own search.
  viewer.addEventListener("keydown", ({ key }) => key === "Escape" && viewer.close());
  viewer.addEventListener("close", () => viewer.remove());
  document.body.append(viewer);
  viewer.showModal();
  hint.hidden = viewer.scrollWidth <= viewer.clientWidth;
}

function offerLarge() {
  for (const picture of document.querySelectorAll(PICTURES)) {
    const offered = picture.nextElementSibling?.matches(".enlarge") ? picture.nextElementSibling : null;
    if (!isShrunk(picture)) offered?.remove();
    else if (!offered) {
      const button = document.createElement("button");
      button.className = "enlarge";
      button.type = "button";
      button.textContent = "Enlarge";
      button.addEventListener("click", () => enlarge(picture));
      picture.after(button);
    }
  }
}

document.addEventListener("click", ({ target }) => target.matches(PICTURES) && isShrunk(target) && enlarge(target));

/* The theme listens on the first button of each bar, which these pages never show; the one they show is another. */
for (const bar of ["primary", "secondary"]) {
  const [wired, ...shown] = document.querySelectorAll(`.${bar}-toggle`);
  for (const button of shown) button.addEventListener("click", () => wired.click());
  if (bar === "primary") wired?.addEventListener("click", () => setTimeout(showCurrent)); // when the theme has opened it
}

/* A link may lead into folds, as the search's do: they open. */
const CLOSED = "details:not([open]), .toggle-hidden";

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folds = [];
  for (let fold = target?.closest(CLOSED); fold; fold = fold.parentElement.closest(CLOSED)) folds.push(fold);
  for (const fold of folds) fold.matches("details") ? (fold.open = true) : fold.querySelector(".toggle-button").click();
  if (folds.length) target.scrollIntoView();
}

document.addEventListener("DOMContentLoaded", openTarget); // the theme closes its folds at this event, before
addEventListener("hashchange", openTarget);

/* In the list of chapters, the one that is open is in sight: the theme keeps the list where the page before had it. */
function showCurrent() {
  const here = document.querySelector(".bd-docs-nav li.active:not(:has(li.active)) > a");
  const bar = here?.closest(".bd-sidebar-primary");
  if (!bar) return;
  const [link, box] = [here.getBoundingClientRect(), bar.getBoundingClientRect()];
  if (link.top < box.top || link.bottom > box.top + bar.clientHeight) {
    bar.scrollTop += link.top - box.top - bar.clientHeight / 3;
  }
}
addEventListener("load", showCurrent);

/* The arrow to the top is not seen where it would lie on something that can be pressed. */
addEventListener("scroll", () => requestAnimationFrame(() => {
  const arrow = document.getElementById("pst-back-to-top");
  const { left, top, width, height } = arrow?.getBoundingClientRect() ?? {};
  if (!width) return;
  const [across, down] = [width - 1, height - 1].map((length) => [0, length / 2, length]);
  const under = across.flatMap((x) => down.flatMap((y) => document.elementsFromPoint(left + x, top + y)));
  const isOver = under.some((one) => !arrow.contains(one) && one.closest("a, button, input, label, select, summary"));
  arrow.classList.toggle("is-over", isOver);
}), { passive: true });
