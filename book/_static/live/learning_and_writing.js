/* Learning beside writing: the rows of learning are all there at once, those of writing come one by one. */
"use strict";

(() => {
  const place = document.getElementById("learning-and-writing");
  const find = (selector) => place.querySelector(selector);
  const rows = [...place.querySelectorAll(".pair-right")];
  let count = 0;

  function draw() {
    rows.forEach((row, i) => row.classList.toggle("pair-open", i >= count));
    if (count === 0 && document.activeElement === find(".pair-back")) {
      find(".pair-step").focus(); // a button that goes dead would take the focus with it
    }
    find(".pair-back").disabled = count === 0;
    find(".pair-step").textContent = count === rows.length ? "Write it again" : "Write the next word";
    const word = rows[count - 1]?.querySelector("b").textContent;
    find(".pair-status").textContent = word ? `It writes ${word}, and ${count < rows.length ? "reads it in the next row" : "stops"}.` : "Nothing is written yet.";
  }

  find(".pair-step").addEventListener("click", () => {
    count = count === rows.length ? 0 : count + 1;
    draw();
    rows[count - 1]?.scrollIntoView({ block: "nearest" }); // a phone does not show all of them
  });
  find(".pair-back").addEventListener("click", () => {
    count -= 1;
    draw();
  });
  find(".pair-steps").hidden = false;
  draw();
})();
