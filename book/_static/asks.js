/* A question before a showing: what it names is veiled until the answer, and opens below the question, so that nothing
   above it moves. */
"use strict";

/** Whether the form holds an answer that it has remarked on; book-answers.js has run before. */
const isAnswered = (form) =>
  form.querySelector(".answer-remark").textContent !== "" &&
  form.querySelector("input:checked, input[aria-invalid=false]") !== null;

/** Veil the part; the function that is returned shows it. */
function veil(part) {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Show it now" });
  const words = Object.assign(document.createElement("p"), { textContent: "This waits for your answer." });
  const cover = Object.assign(document.createElement("div"), { className: "ask-veil" });
  cover.append(words, button);
  part.prepend(cover);
  part.classList.add("ask-veiled");
  const show = () => {
    cover.remove();
    part.classList.remove("ask-veiled");
    part.dispatchEvent(new Event("shown"));
  };
  button.addEventListener("click", () => {
    show();
    part.tabIndex = -1; // the focus goes on with what the button has shown
    part.focus({ preventScroll: true });
  });
  return show;
}

for (const form of document.querySelectorAll("form.answer.ask")) {
  const part = document.getElementById(form.dataset.before);
  const isWanted = part && (location.hash === `#${part.id}` || matchMedia("print").matches); // by a link, or for paper
  const show = part && !isWanted && !isAnswered(form) ? veil(part) : () => {};
  form.querySelector(".ask-show").addEventListener("click", () => {
    const answer = form.nextElementSibling.querySelector("p").textContent;
    form.querySelector(".answer-remark").textContent = `The answer: ${answer}`;
    show();
  });
  form.addEventListener("submit", () => isAnswered(form) && show());
}
