/* One head by hand: a query that turns, three keys, the weights, and what is found. Equation (1) with d_k = 2. */
"use strict";

(() => {
  const place = document.getElementById("head-by-hand");
  const find = (selector) => place.querySelector(selector);
  const [angle, firmness, turn] = [".hand-angle", ".hand-length", ".hand-turn"].map(find);
  const rows = [...place.querySelectorAll("tbody tr")];
  const pair = (text) => text.slice(1, -1).split(",").map(Number);
  const [keys, values] = ["key", "value"].map((name) => rows.map((row) => pair(row.dataset[name])));
  const UNIT = 30; // pixels of the drawing
  const ORIGIN = [56, 184];
  const TIME = 2500; // milliseconds of a turn
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const written = (numbers, digits = 1) => `(${numbers.map((x) => (Math.abs(x) < 0.05 ? 0 : x).toFixed(digits)).join(", ")})`;

  function draw() {
    const [degrees, length] = [Number(angle.value), Number(firmness.value)];
    const radians = (degrees * Math.PI) / 180;
    const query = [length * Math.cos(radians), length * Math.sin(radians)];
    const products = keys.map(([x, y]) => query[0] * x + query[1] * y);
    const powers = products.map((product) => Math.exp(product / Math.SQRT2));
    const whole = powers.reduce((a, b) => a + b);
    const weights = powers.map((power) => power / whole);
    const found = [0, 1].map((i) => weights.reduce((sum, weight, word) => sum + weight * values[word][i], 0));
    rows.forEach((row, word) => {
      row.cells[2].textContent = products[word].toFixed(1);
      row.cells[3].textContent = weights[word].toFixed(3);
      row.cells[3].style.setProperty("--share", `${100 * weights[word]}%`);
    });
    find(".hand-sum").textContent = weights
      .map((weight, word) => `${weight.toFixed(3)}·(${values[word].join(", ")})`)
      .join(" + ");
    find(".hand-asked").textContent = written(query);
    find(".hand-answer").textContent = written(found);
    const long = Math.max(length * UNIT, 1);
    find(".hand-query").setAttribute("transform", `translate(${ORIGIN}) rotate(${-degrees})`);
    find(".hand-query line").setAttribute("x2", Math.max(long - 8, 0));
    const tip = Math.min(long, 12); // a short arrow has a short head
    find(".hand-query polygon").setAttribute("points", `${long},0 ${long - tip},${-tip / 2} ${long - tip},${tip / 2}`);
    const words = degrees < 20 ? "ones" : degrees > 70 ? "tens" : "a little of both";
    angle.setAttribute("aria-valuetext", words);
    find(".hand-direction").textContent = words;
    find(".hand-firmness").textContent = length.toFixed(1);
    turn.textContent = degrees < 45 ? "Turn it to the tens" : "Turn it to the ones";
  }

  let frame = 0;

  function turnTo(goal) {
    cancelAnimationFrame(frame);
    const [from, start] = [Number(angle.value), performance.now()];
    const move = (now) => {
      const share = isStill ? 1 : Math.min(Math.max(now - start, 0) / TIME, 1);
      angle.value = from + (goal - from) * share * share * (3 - 2 * share);
      draw();
      frame = share < 1 ? requestAnimationFrame(move) : 0;
    };
    move(start);
  }

  for (const [name, value] of Object.entries({ x1: 0, y1: 0, y2: 0 })) {
    find(".hand-query line").setAttribute(name, value);
  }
  for (const slider of [angle, firmness]) {
    slider.addEventListener("input", () => {
      cancelAnimationFrame(frame);
      draw();
    });
  }
  turn.addEventListener("click", () => turnTo(angle.value < 45 ? 90 : 0));
  find(".hand-controls").hidden = false;
  draw();
})();
