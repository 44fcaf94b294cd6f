/* The last drawing: what a GPT keeps, or the whole model of 2017. One switch above it; the drawing has both. */
"use strict";

(() => {
  const place = document.getElementById("what-gpt-keeps");
  const figure = document.getElementById("zoom-after");
  const [drawing, title, caption] = ["svg", "svg title", ".caption-text"].map((name) => figure.querySelector(name));
  const [box, status] = [".after-box", ".after-status"].map((name) => place.querySelector(name));
  const gpt = {
    title: title.textContent,
    caption: caption.textContent,
    status: "GPT: no memory; und looks back at forty and seven, too, in the one text.",
  };
  const whole = {
    title: "The model of 2017: both halves",
    caption: "Two texts. The encoder reads the first; the decoder writes the second, and looks into the memory.",
    status: "2017: und looks up forty and seven in the memory, and looks back at what is written.",
  };
  const show = () => {
    const words = box.checked ? whole : gpt;
    drawing.classList.toggle("is-2017", box.checked);
    [title.textContent, caption.textContent, status.textContent] = [words.title, words.caption, words.status];
  };
  figure.prepend(place);
  place.hidden = false;
  box.addEventListener("change", show);
  addEventListener("beforeprint", () => {
    box.checked = false; // paper shows the drawing as it is without scripts
    show();
  });
  show();
})();
