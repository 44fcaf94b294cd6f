/* The listings, outputs, formulas, tables, pictures and charts that a reader sees without unfolding anything, and whether each is cut.
   Evaluated in the page by test_pages.py. */
() => {
  const seen = [];
  const fits = box => box.scrollWidth <= box.clientWidth + 1;
  const isShown = box => box.checkVisibility() && !box.closest("details:not(.code, .evidence), .toggle-hidden");
  for (const pre of document.querySelectorAll(".bd-article pre")) {
    if (!isShown(pre)) continue;
    const kind = pre.closest(".output") ? "output" : "code";
    const words = pre.textContent.trim().split("\n")[0].slice(0, 60);
    const rows = pre.querySelector(".tabular") !== null;
    seen.push({kind, words, cut: !fits(pre), rows, shadow: pre.classList.contains("goes-on")});
  }
  for (const box of document.querySelectorAll(".bd-article :is(div.math, .pst-scrollable-table-container)")) {
    if (!isShown(box)) continue;
    const kind = box.matches(".math") ? "formula" : "table";
    seen.push({kind, words: box.textContent.trim().slice(0, 60), cut: !fits(box), shadow: box.classList.contains("goes-on")});
  }
  const room = (document.querySelector(".bd-article") ?? document.body).getBoundingClientRect().right + 1;
  for (const picture of document.querySelectorAll(".bd-article :is(img, svg.drawing)")) {
    if (!isShown(picture)) continue;
    const words = picture.alt || picture.querySelector("title")?.textContent || "";
    const box = picture.closest(".cell_output") ?? picture.parentElement;
    const cut = picture.getBoundingClientRect().right > room || !fits(box);
    seen.push({kind: "picture", words: words.slice(0, 60), cut});
  }
  for (const chart of document.querySelectorAll(".vega-chart")) {
    if (!isShown(chart)) continue;
    const svg = chart.querySelector("svg.marks");
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    const letters = [...svg.querySelectorAll("text")].filter(text => text.textContent.trim() && text.checkVisibility())
      .map(text => scale * parseFloat(getComputedStyle(text).fontSize));
    const words = svg.getAttribute("aria-label") ?? svg.querySelector("[aria-label]").getAttribute("aria-label");
    const [cut, shadow] = [!fits(chart), chart.classList.contains("goes-on")];
    seen.push({kind: "chart", words: words.slice(0, 60), cut, shadow, letters: Math.min(...letters)});
  }
  return seen;
}
