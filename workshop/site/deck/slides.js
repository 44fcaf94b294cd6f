/* Draw the charts of the deck, then start it; S opens the speaker's view with the notes. */
"use strict";

async function draw(place) {
  const spec = JSON.parse(place.querySelector("script").textContent);
  const canvas = document.createElement("div");
  place.append(canvas);
  await vegaEmbed(canvas, spec, { mode: "vega-lite", actions: false, renderer: "svg" });
  // As large as the slide allows. Closed slides have no size, so the numbers are those of the drawing itself.
  const drawing = canvas.querySelector("svg.marks");
  const [width, height] = ["width", "height"].map((side) => Number(drawing.getAttribute(side)));
  const controls = 32 * canvas.querySelectorAll(".vega-bind").length;
  place.style.zoom = Math.min(1100 / width, 540 / (height + controls), 1.8);
}

Promise.allSettled([...document.querySelectorAll(".vega-chart")].map(draw)).then((drawn) => {
  for (const { reason } of drawn.filter(({ status }) => status === "rejected")) console.error(reason);
  Reveal.initialize({
    controls: true,
    hash: true,
    height: 720,
    plugins: [RevealNotes],
    progress: true,
    slideNumber: "c/t",
    transition: "none",
    width: 1180,
  });
});
