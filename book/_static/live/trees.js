/* The tree that a parser writes, as boxes in boxes. A constituent that is still open has a dashed edge. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const { element } = LiveTranslator;

  /** Draw the tokens so far over the words; nothing where no bracket opens. */
  function drawTree(place, tokens, words) {
    const open = [place];
    let read = 0;
    place.replaceChildren();
    place.hidden = !tokens[0]?.startsWith("(");
    if (place.hidden) {
      return;
    }
    for (const token of tokens) {
      const inner = open.at(-1);
      if (token.startsWith("(")) {
        const parts = element("div", { className: "live-parts" });
        const label = element("b", { textContent: token.slice(1) });
        inner.append(element("div", { className: "live-constituent live-open" }, label, parts));
        open.push(parts);
      } else if (token === "XX") {
        inner.append(element("span", { textContent: words[read++] ?? "?" }));
      } else if (token.startsWith(")") && open.length > 1) {
        open.pop().parentElement.classList.remove("live-open");
      }
    }
  }

  Object.assign(LiveTranslator, { drawTree });
})();
