/* The layers of a page: closes what a first reader does not need, and lets one switch open all. The choice holds for
   the whole book; where a browser keeps nothing, for the page. */
"use strict";

const LAYERS_KEY = "code-and-checks";
const FOLDS = ".bd-article details:is(.evidence, .code, .hide, .in-python)";
const phone = matchMedia("(max-width: 30rem)");
const layersSwitch = document.querySelector(".layers input");

function layersChosen() {
  try {
    return localStorage.getItem(LAYERS_KEY) === "shown";
  } catch {
    return false;
  }
}

function keepLayers(shown) {
  try {
    localStorage.setItem(LAYERS_KEY, shown ? "shown" : "folded");
  } catch {
    // The page shows what was chosen all the same.
  }
}

function showLayers() {
  const all = layersSwitch.checked;
  document.documentElement.classList.toggle("shows-all", all);
  for (const fold of document.querySelectorAll(FOLDS)) fold.open = all || (fold.matches(".code") && !phone.matches);
}

layersSwitch.checked = layersChosen();
showLayers();
layersSwitch.closest(".layers").hidden = false;
document.documentElement.classList.add("layered");
layersSwitch.addEventListener("change", () => {
  const before = layersSwitch.getBoundingClientRect().top;
  showLayers();
  keepLayers(layersSwitch.checked);
  window.scrollBy(0, layersSwitch.getBoundingClientRect().top - before);
});
phone.addEventListener("change", showLayers);

/* Paper shows argument, code and evidence. */
let closedForScreen = [];
window.addEventListener("beforeprint", () => {
  closedForScreen = [...document.querySelectorAll(FOLDS)].filter((fold) => !fold.open && !fold.matches(".hide"));
  for (const fold of closedForScreen) fold.open = true;
});
window.addEventListener("afterprint", () => {
  for (const fold of closedForScreen) fold.open = false;
});
