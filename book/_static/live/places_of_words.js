/* What a model writes with the places of words, and without: one switch. */
"use strict";

(() => {
  const place = document.getElementById("places-of-words");
  const box = place.querySelector(".places-box");
  const show = () => {
    place.classList.toggle("is-on", box.checked);
    place.classList.toggle("is-off", !box.checked);
  };
  place.classList.add("places-live");
  place.querySelector(".places-switch").hidden = false;
  box.addEventListener("change", show);
  show();
})();
