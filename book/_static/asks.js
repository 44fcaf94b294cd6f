/* A choice before a showing is answered by one press; by keyboard, where each arrow is a choice, by Enter. */
"use strict";

for (const form of document.querySelectorAll("form.answer.ask")) {
  let isPressed = false;
  form.addEventListener("pointerdown", () => {
    isPressed = true;
  });
  form.addEventListener("keydown", (event) => {
    isPressed = false;
    if (event.key === "Enter" && event.target.matches("input[type=radio]")) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  form.querySelector(".ask-show").addEventListener("click", () => {
    form.querySelector(".answer-remark").textContent = form.nextElementSibling.querySelector("p").textContent;
  });
  form.addEventListener("change", (event) => {
    const isChosen = isPressed && event.target.matches("input[type=radio]");
    form.classList.toggle("ask-pressed", isChosen);
    if (isChosen) {
      form.requestSubmit();
    }
  });
}
