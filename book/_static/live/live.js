/* The page: loads a translator when asked to, and shows how it writes, token by token. */
"use strict";

(() => {
  const { element } = LiveTranslator;
  const place = document.getElementById("live-translator");
  const find = (selector) => place.querySelector(selector);
  const [loadForm, textForm, result] = [".live-load", ".live-text", ".live-result"].map(find);
  const EXAMPLES = {
    number_words_en_de: ["forty seven", "three hundred twenty one thousand four hundred fifty six", "one"],
    tatoeba_de_en: [
      "Wie alt bist du?",
      "Das Buch, das ich gestern gelesen habe, war sehr interessant.",
      "Dieses Buch ist so leicht, dass sogar ein Kind es lesen kann.",
      "Der Bundesrat hat das Gesetz abgelehnt.",
    ],
    tatoeba_en_de: [
      "How old are you?",
      "The cat that is sleeping on the table belongs to my sister.",
      "The cat that sleeps on the table belongs to my sister.",
      "The senate rejected the bill.",
    ],
    parser_en_en: [
      "the girl saw the king with a telescope",
      "the girl saw the king with a beard",
      "the doctor who watched the baker with a lens laughed",
    ],
  };
  const PAUSE = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 250; // milliseconds between tokens

  const surgery = LiveTranslator.makeSurgery(find(".live-surgery"), find(".live-operation"), translateAgain);
  const loaded = new Map();
  let runtimeLoaded = false;
  let shown = null; // what is on the page: { translator, name, source, beamSize, steps, text }
  let run = 0; // counts the runs, so that an old one stops when a new one starts
  let head = null;

  const chosenRadio = () => find("[name=live-name]:checked");
  const say = (text) => {
    find(".live-status").textContent = text;
  };
  const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE));

  // ── Loading ──────────────────────────────────────────────────────────────────────────────────────────────────

  function showLoading() {
    const radio = chosenRadio();
    const ready = loaded.has(radio.value);
    const button = loadForm.querySelector("button");
    button.hidden = ready;
    textForm.hidden = !ready;
    result.hidden = find(".live-answer").hidden = !ready || shown?.name !== radio.value;
    find(".live-surgery").hidden = !ready;
    if (!ready) {
      const [size, runtime] = [["onnxruntime", radio.value], ["onnxruntime"]].map((n) => LiveTranslator.missing(place, n));
      button.textContent = `Load: ${size}`;
      const before = `Nothing is loaded before you press. ${runtime} of it is the runtime, which all of them share.`;
      say(find(".live-loading").hidden ? (runtimeLoaded ? "" : before) : "Loading …");
    } else {
      say("Loaded. Nothing you type leaves your device.");
      showExamples(radio.value);
      surgery.show(radio.value, loaded.get(radio.value));
    }
  }

  async function load(event) {
    event.preventDefault();
    const name = chosenRadio().value;
    say("Loading …");
    try {
      const loading = LiveTranslator.loadTranslator(place.dataset.static, name);
      loaded.set(name, await LiveTranslator.withBar(place, ["onnxruntime", name], loading));
      runtimeLoaded = true;
      if (textForm.hidden) {
        showLoading();
        find("#live-text").focus();
      }
    } catch (error) {
      say(`Not loaded: ${error.message}`);
    }
  }

  // ── A file of the reader's own ───────────────────────────────────────────────────────────────────────────────

  /** Another choice beside the page's own translators, under the languages of the file. */
  function addChoice(translator, file) {
    const value = `own-${loaded.size}`;
    loaded.set(value, translator);
    const radio = element("input", { type: "radio", name: "live-name", value, checked: true });
    const words = ` ${translator.source} to ${translator.target}, from your device (${file.name})`;
    loadForm.querySelector("fieldset").append(element("label", {}, radio, words));
  }

  async function open(files) {
    const problem = find(".live-own-problem");
    problem.textContent = "";
    for (const file of files) {
      say("Opening …");
      try {
        const opening = LiveTranslator.openTranslator(place.dataset.static, file);
        addChoice(await LiveTranslator.withBar(place, ["onnxruntime"], opening), file);
        runtimeLoaded = true;
        showLoading();
        find("#live-text").focus();
      } catch (error) {
        problem.textContent = error.message;
        showLoading();
      }
    }
  }

  function showExamples(name) {
    const input = find("#live-text");
    const { source, hundred } = loaded.get(name);
    const examples = EXAMPLES[name] ?? hundred.pairs.slice(0, 4).map(([text]) => text);
    input.lang = source;
    if (input.dataset.name !== name) {
      input.dataset.name = name;
      input.value = examples[0] ?? "";
    }
    const buttons = examples.map((text) => {
      const button = element("button", { type: "button", textContent: text, lang: source });
      button.addEventListener("click", () => {
        input.value = text;
        translate();
      });
      return button;
    });
    find(".live-examples").replaceChildren(...(buttons.length ? ["Try: ", ...buttons] : []));
  }

  // ── Translating ──────────────────────────────────────────────────────────────────────────────────────────────

  /** Read the text; null, with the reason on the page, if it cannot be translated. */
  function begin() {
    const name = chosenRadio().value;
    const translator = loaded.get(name);
    const beamSize = Number(find("[name=live-search]:checked").value);
    try {
      const typed = find("#live-text").value;
      const text = name.startsWith("number_words") ? LiveTranslator.withNumbersSpelled(typed) : typed;
      if (name.startsWith("number_words") && text === "zero") {
        throw new RangeError("Zero was not among the numbers that this model learned from: try one above it.");
      }
      const source = translator.encode(text);
      find("#live-problem").textContent = "";
      shown = { translator, name, source, beamSize, steps: [], text, typed, switches: surgery.switches() };
    } catch (error) {
      find("#live-problem").textContent = error.message;
      return null;
    }
    showSource();
    return shown;
  }

  function showSource() {
    const { translator, source, text } = shown;
    const chips = source.map((id) => element("code", { textContent: translator.sourceTokenizer.vocabulary[id] }));
    find(".live-source").replaceChildren(...chips);
    const unknown = [...new Set(LiveTranslator.unknownPieces(translator.sourceTokenizer, text))];
    find(".live-unknown").textContent = unknown.length
      ? `Never seen in training: ${unknown.join(", ")}. The model reads <unk> in its place, and guesses.`
      : "";
    find(".live-translation").lang = translator.target;
    result.hidden = find(".live-answer").hidden = false;
  }

  async function go(current, start, { once = false, wait = pause } = {}) {
    const mine = ++run;
    const { translator, source, beamSize, switches } = current;
    const step = translator.stepFor(source, switches);
    const search =
      beamSize === 1
        ? LiveTranslator.greedySearch(step, source.length, start)
        : LiveTranslator.beamSearch(step, source.length, beamSize);
    for await (const found of search) {
      if (mine !== run) {
        return;
      }
      current.steps.push(found);
      show();
      if (once) {
        return;
      }
      await wait();
    }
  }

  async function translate(event) {
    event?.preventDefault();
    const current = begin();
    if (current) {
      await go(current, []);
    }
  }

  /** The same after a change of the switches or of the search, at once; or another text, if there is one. */
  async function translateAgain(text = find("#live-text").value) {
    find("#live-text").value = text;
    const current = begin();
    if (current) {
      await go(current, [], { wait: () => null });
    }
  }

  /** One step further, or from the start if the text or the search is new. */
  async function next() {
    const beamSize = Number(find("[name=live-search]:checked").value);
    const same = shown && shown.typed === find("#live-text").value && shown.name === chosenRadio().value;
    const goesOn = same && shown.beamSize === 1 && beamSize === 1 && shown.steps.length && !shown.steps.at(-1).done;
    const current = goesOn ? shown : begin();
    if (current) {
      await go(current, goesOn ? current.steps.at(-1).tokens : [], { once: beamSize === 1 });
    }
  }

  /** Another token at one step: the steps before it stay, the model goes on after it. */
  async function choose(at, id) {
    const { EOS } = LiveTranslator.special;
    const changed = shown.steps[at];
    const tokens = [...changed.tokens.slice(0, -1), id];
    shown.steps = [...shown.steps.slice(0, at), { ...changed, tokens, done: id === EOS }];
    show();
    place.querySelectorAll(".live-steps tbody tr")[at].querySelector("[aria-pressed=true]").focus();
    await (id === EOS ? ++run : go(shown, tokens));
  }

  // ── Showing ──────────────────────────────────────────────────────────────────────────────────────────────────

  const written = (id) => shown.translator.targetTokenizer.vocabulary[id];

  function show() {
    const focused = document.activeElement?.closest(".live-steps button");
    const row = focused?.closest("tr").rowIndex;
    const rank = focused && [...focused.parentElement.children].indexOf(focused);
    const text = shown.translator.targetTokenizer.decode(shown.steps.at(-1).tokens);
    find(".live-translation").textContent = text + (shown.steps.at(-1).done ? "" : " …");
    find(".live-echo").textContent = `${shown.text} → ${find(".live-translation").textContent}`;
    const words = shown.translator.sourceTokenizer.pieces(shown.text);
    LiveTranslator.drawTree(find(".live-tree"), text.split(" "), words);
    LiveTranslator.drawSteps(result, shown.steps, shown.beamSize, written, choose);
    if (focused) {
      find(".live-steps").rows[row]?.querySelectorAll("button")[rank]?.focus();
    }
    showAttention();
  }

  function showAttention() {
    const { attention } = shown.steps.at(-1);
    const names = Object.keys(attention);
    if (!names.includes(head?.split("/")[0])) {
      head = `${names.filter((name) => name.endsWith(".cross")).at(-1)}/1`;
    }
    const grid = find(".live-maps");
    if (grid.dataset.name !== shown.name) {
      grid.dataset.name = shown.name;
      LiveTranslator.buildGrid(grid, attention, head);
    }
    LiveTranslator.drawGrid(grid, attention);
    LiveTranslator.markHeads(grid, shown.switches);
    showHead();
  }

  function showHead() {
    const { attention, tokens } = shown.steps.at(-1);
    const [name, number] = head.split("/");
    const source = shown.source.map((id) => shown.translator.sourceTokenizer.vocabulary[id]);
    const [rows, columns] = LiveTranslator.axes(name, source, tokens.map(written));
    const matrix = attention[name][number].map((row) => [...row]);
    const words = LiveTranslator.headIn(name, number);
    find(".live-chosen").textContent = words;
    LiveTranslator.drawLarge(find(".live-large"), matrix, rows, columns, words);
    LiveTranslator.drawMost(find(".live-most"), matrix, rows, columns);
  }

  loadForm.addEventListener("submit", load);
  find(".live-file").addEventListener("change", (event) => {
    event.stopPropagation(); // it is no choice of a translator
    open([...event.target.files]);
    event.target.value = ""; // so that the same file can be opened again
  });
  loadForm.addEventListener("dragover", (event) => event.preventDefault()); // the browser would open it as a page
  loadForm.addEventListener("drop", (event) => {
    event.preventDefault();
    open([...event.dataTransfer.files]);
  });
  loadForm.addEventListener("change", showLoading);
  textForm.addEventListener("submit", translate);
  find(".live-next").addEventListener("click", next);
  find(".live-search").addEventListener("change", () => {
    if (shown?.steps.length && shown.name === chosenRadio().value) {
      translateAgain();
    }
  });
  find(".live-maps").addEventListener("change", (event) => {
    head = event.target.value;
    showHead();
  });
  new MutationObserver(() => shown?.steps.length && showAttention()).observe(document.documentElement, {
    attributeFilter: ["data-theme"],
  });
  showLoading();
})();
