/* The switches of a model: each head, the scale of the scores, the positions. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const { element } = LiveTranslator;
  const POSITIONS = [
    [0, "0: none"],
    [0.25, "¼"],
    [0.5, "½"],
    [1, "1: as trained"],
    [2, "2"],
  ];

  function scoresOf({ widthOfKeys }) {
    const root = Math.sqrt(widthOfKeys);
    return [
      [0, "0: all keys alike"],
      [0.25, "¼"],
      [0.5, "½"],
      [1, "1: as trained, divided by √d_k"],
      [2, "2"],
      [root, `√${widthOfKeys} = ${Number(root.toFixed(2))}: not divided by √d_k`],
    ];
  }

  function fill(select, values) {
    const options = values.map(([value, textContent]) =>
      element("option", { value, textContent, defaultSelected: value === 1 }),
    );
    select.replaceChildren(...options);
  }

  function headSwitches(name, heads) {
    const boxes = Array.from({ length: heads }, (_, head) =>
      element("input", { type: "checkbox", defaultChecked: true, name, value: String(head) }),
    );
    const labels = boxes.map((box, head) => element("label", {}, box, ` ${head + 1}`));
    const all = element("button", { type: "button", className: "live-all" });
    all.addEventListener("click", () => {
      const on = boxes.every((box) => !box.checked);
      for (const box of boxes) {
        box.checked = on;
      }
      all.dispatchEvent(new Event("change", { bubbles: true }));
    });
    const legend = element("legend", { textContent: `${LiveTranslator.attentionIn(name)}, heads` });
    return element("fieldset", {}, legend, ...labels, all);
  }

  /** Say on the button of each attention what it will do. */
  function nameButtons(form) {
    for (const button of form.querySelectorAll(".live-all")) {
      const fieldset = button.parentElement;
      button.textContent = fieldset.querySelector("input:checked") ? "all off" : "all on";
      button.setAttribute("aria-label", `${fieldset.querySelector("legend").textContent}: ${button.textContent}`);
    }
  }

  /** The switches of one translator, as `Translator.run` takes them. */
  function switchesIn(form, translator) {
    const gate = (name, head) => Number(form.querySelector(`[name="${name}"][value="${head}"]`).checked);
    const gates = translator.attentions.map((name) => [
      name,
      Array.from({ length: translator.heads }, (_, head) => gate(name, head)),
    ]);
    const value = (selector) => Number(form.querySelector(selector).value);
    return { gates: Object.fromEntries(gates), scores: value(".live-scores"), positions: value(".live-positions") };
  }

  function makePanel(template, translator, translateText) {
    const panel = template.content.cloneNode(true).firstElementChild;
    const form = panel.querySelector("form");
    const switches = () => switchesIn(form, translator);
    form.querySelector(".live-heads").append(
      ...translator.attentions.map((name) => headSwitches(name, translator.heads)),
    );
    fill(form.querySelector(".live-scores"), scoresOf(translator));
    fill(form.querySelector(".live-positions"), POSITIONS);
    const counter = new LiveTranslator.Counter(panel, translator, switches, translateText);
    const changed = () => {
      nameButtons(form);
      counter.follow(translateText());
    };
    nameButtons(form);
    form.addEventListener("change", changed);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(changed)); // the event comes before the reset
    return { panel, switches };
  }

  /** The place of the switches: of each translator its own, which stay when the reader goes to another one and back. */
  function makeSurgery(place, template, translateText) {
    const panels = new Map();
    let chosen = null;
    return {
      show(name, translator) {
        if (!panels.has(name)) {
          panels.set(name, makePanel(template, translator, translateText));
        }
        chosen = panels.get(name);
        place.replaceChildren(chosen.panel);
      },
      switches: () => chosen.switches(),
    };
  }

  Object.assign(LiveTranslator, { makeSurgery });
})();
