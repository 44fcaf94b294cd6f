/* The last drawing: what a GPT keeps, or the whole model of 2017. One switch; the drawing has both. */
"use strict";

(() => {
  const place = document.getElementById("what-gpt-keeps");
  const drawing = document.querySelector("#zoom-after svg");
  const [box, status] = [".after-box", ".after-status"].map((name) => place.querySelector(name));
  const show = () => {
    drawing.classList.toggle("is-2017", box.checked);
    status.textContent = box.checked
      ? "2017: und looks up forty and seven in the memory, and looks back at what is written."
      : "GPT: no memory; und looks back at forty and seven, too, in the one text.";
  };
  place.hidden = false;
  box.addEventListener("change", show);
  show();
})();
