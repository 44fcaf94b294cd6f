/* A choice is answered by one press, with a finger, a mouse or a screen reader. With keys each arrow is a choice, so
   Enter or the space bar answers. */
"use strict";

for (const form of document.querySelectorAll("form.answer:has(.one-press)")) {
  let isMoving = false; // by an arrow
  form.addEventListener("keydown", (event) => {
    isMoving = event.key.startsWith("Arrow");
    if (["Enter", " "].includes(event.key) && event.target.matches("input")) {
      event.preventDefault();
      event.target.checked = true;
      form.requestSubmit();
    }
  });
  form.addEventListener("keyup", () => {
    isMoving = false;
  });
  form.addEventListener("change", () => {
    if (isMoving) {
      form.querySelector(".answer-remark").textContent = ""; // it was on another choice
    } else {
      form.requestSubmit();
    }
  });
}
