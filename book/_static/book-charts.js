/* Draw each chart from the specification inside its place. Vega is loaded before this file, from this site. */
"use strict";

for (const place of document.querySelectorAll(".vega-chart")) {
  const spec = JSON.parse(place.querySelector("script").textContent);
  const canvas = document.createElement("div");
  place.append(canvas);
  vegaEmbed(canvas, spec, { mode: "vega-lite", actions: false, renderer: "svg" })
    .then(() => place.dispatchEvent(new CustomEvent("drawn", { bubbles: true })))
    .catch((error) => {
      const message = document.createElement("p");
      message.className = "error";
      message.textContent = `The chart could not be drawn: ${error.message}`;
      canvas.replaceChildren(message);
      console.error(error);
    });
}
