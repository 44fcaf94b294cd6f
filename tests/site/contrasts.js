/* The texts and marks of the page's charts, and the kinds of words in its listings, that stand out too little from what
   is behind them. Evaluated in the page by test_pages.py. */
() => {
  const TEXT = 4.5;
  const MARK = 3;
  const faint = [];

  function parsed(colour) {
    const parts = colour.match(/[\d.]+/g)?.map(Number);
    return parts && { rgb: parts.slice(0, 3), alpha: parts[3] ?? 1 };
  }

  function luminance(rgb) {
    const [r, g, b] = rgb.map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function contrast(one, other) {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }

  /* A paint of an element as it looks over a ground, or nothing where there is none to see. */
  function paint(element, property, ground) {
    const style = getComputedStyle(element);
    const colour = style[property] === "none" ? null : parsed(style[property]);
    if (!colour || (property === "stroke" && parseFloat(style.strokeWidth) === 0)) return null;
    const alpha = colour.alpha * parseFloat(style.opacity) * parseFloat(style[`${property}Opacity`] ?? 1);
    return alpha < 0.05 ? null : colour.rgb.map((part, i) => alpha * part + (1 - alpha) * ground[i]);
  }

  function holds(box, x, y) {
    return box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
  }

  const seen = new Set();
  for (const word of document.querySelectorAll("pre span[class]")) {
    const listing = word.closest("pre");
    const own = parsed(getComputedStyle(listing).backgroundColor);
    const ground = own.alpha ? own.rgb : parsed(getComputedStyle(document.body).backgroundColor).rgb;
    const kind = `${word.className} on ${ground}`;
    if (seen.has(kind)) continue;
    seen.add(kind);
    const ratio = contrast(paint(word, "color", ground), ground);
    if (ratio < TEXT - 0.05) faint.push(`listing: ${kind}: ${word.textContent}: ${ratio.toFixed(2)}`);
  }

  for (const chart of document.querySelectorAll(".vega-chart")) {
    const card = parsed(getComputedStyle(chart).backgroundColor).rgb;
    const boxes = [...chart.querySelectorAll("g.mark-rect.role-mark path")].map((path) => ({
      path,
      area: path.getBoundingClientRect(),
      fill: paint(path, "fill", card),
      named: false,
    }));
    const title = chart.querySelector("[aria-label]").getAttribute("aria-label")?.slice(0, 40);
    for (const text of chart.querySelectorAll("svg text")) {
      const { left, right, top, bottom, width } = text.getBoundingClientRect();
      if (!width || !text.textContent.trim()) continue;
      const behind = boxes.filter(({ area }) => holds(area, (left + right) / 2, (top + bottom) / 2));
      for (const box of behind) box.named = true;
      const ground = behind.findLast(({ fill }) => fill)?.fill ?? card;
      const ink = paint(text, "fill", ground);
      const ratio = ink ? contrast(ink, ground) : TEXT;
      if (ratio < TEXT - 0.05) faint.push(`${title}: text ${text.textContent}: ${ratio.toFixed(2)}`);
    }
    /* Of a cell with text in it, the text says what its colour says. A wide pale area shows a spread around a line. */
    const named = new Set(boxes.filter((box) => box.named).map(({ path }) => path));
    for (const mark of chart.querySelectorAll("g.role-mark:not(.mark-text) path, g.role-mark line")) {
      if (named.has(mark) || mark.closest(".mark-area") || !mark.getBoundingClientRect().width) continue;
      const paints = ["fill", "stroke"].map((property) => paint(mark, property, card)).filter(Boolean);
      const ratio = Math.max(0, ...paints.map((colour) => contrast(colour, card)));
      if (paints.length && ratio < MARK - 0.05) {
        faint.push(`${title}: ${mark.closest("g.role-mark").getAttribute("class")}: ${ratio.toFixed(2)}`);
      }
    }
  }
  return [...new Set(faint)];
}
