/* The stepper: one forward pass, forward and back, line by line, with a stop at each idea of the paper. */
"use strict";

(() => {
  const { element, matricesOf, inWords, isFloat, drawMap, numbersTable } = LiveTranslator;
  const place = document.getElementById("live-stepper");
  const find = (selector) => place.querySelector(selector);
  const [loadForm, bench, range] = [".live-load", ".live-bench", ".step-range"].map(find);
  const [part, numbers, map] = [".step-part", ".step-numbers", ".step-place"].map(find);

  let trace = null;
  let at = 0; // the step that is shown
  let chosen = ""; // the name of the value that is shown, if the step has it
  let head = 0; // the matrix that is shown, if the value has as many

  const say = (text) => {
    find(".live-status").textContent = text;
  };
  const code = (text) => element("code", { textContent: text });
  const step = () => trace.steps[at];
  const functionOf = (frame) => trace.functions[trace.frames[frame].function];
  const nameOf = ([name]) => (name === "return" ? "returned" : name);
  /** The frames from the outermost call to this one. */
  const stackOf = (frame) => (frame === null ? [] : [...stackOf(trace.frames[frame].caller), frame]);
  const depth = (index) => stackOf(trace.steps[index].frame).length;

  // ── Where to ─────────────────────────────────────────────────────────────────────────────────────────────────

  /** The first later step of which this is true; -1 if there is none. */
  const later = (isWanted) => trace.steps.findIndex((one, index) => index > at && isWanted(one, index));
  const meets = (id) => (one) => one.ids.includes(id);
  const moves = {
    back: () => at - 1,
    forward: () => at + 1,
    over: () => later((_, index) => depth(index) <= depth(at)),
    out: () => later((_, index) => depth(index) < depth(at)),
    next: () => later((one) => one.ids.length),
  };

  function go(index) {
    at = Math.max(0, Math.min(trace.steps.length - 1, index));
    show();
  }

  function move(name) {
    const index = moves[name]();
    go(name === "back" || index >= 0 ? index : trace.steps.length - 1);
  }

  // ── What is shown ────────────────────────────────────────────────────────────────────────────────────────────

  function showStack() {
    const frames = stackOf(step().frame);
    const names = frames.map((frame, i) => {
      const [name, outer] = [functionOf(frame).name, i ? functionOf(frames[i - 1]).name.split(".")[0] : ""];
      return name.startsWith(`${outer}.`) ? name.slice(outer.length + 1) : name;
    });
    const module = frames.map((frame) => trace.frames[frame].module).findLast((name) => name);
    find(".step-stack").replaceChildren(
      element("span", { className: "step-callers", textContent: [...names.slice(0, -1), ""].join(" › ") }),
      element("b", { textContent: names.at(-1) }),
      ...(module ? [" in ", code(module)] : []),
    );
  }

  /** Mark on the small map the innermost part of the model that the step lies in. */
  function showPlace() {
    const frames = stackOf(step().frame);
    const side = frames.length > 1 ? functionOf(frames[1]).name.split(".")[1] : "whole"; // encode or decode
    const partOf = (frame) => {
      const isLast = functionOf(frame).name.endsWith(".logits"); // by the matrix of the embedding
      const name = isLast ? "logits" : trace.frames[frame].module?.split(".").at(-1); // of a layer: its number
      return map.querySelector(`[data-part="${side} ${name}"]`);
    };
    const whole = map.querySelector(`[data-part^="${side}"]`);
    const here = frames.map(partOf).findLast((part) => part) ?? whole;
    map.querySelector(".step-here")?.classList.remove("step-here");
    here?.classList.add("step-here");
    const words = [...new Set([whole, here])].map((part) => part?.textContent ?? "the whole model");
    map.setAttribute("aria-label", `You are here: ${words.join(", ")}`);
  }

  function showSource() {
    const { file, lines } = functionOf(step().frame);
    const [first, last] = step().lines;
    const listing = find(".step-listing");
    const rows = lines.map(([number, html]) => {
      const isCurrent = first <= number && number <= last;
      const className = isCurrent ? "step-line step-current" : "step-line";
      const row = element("div", { className, innerHTML: html || " " });
      row.dataset.number = number;
      if (isCurrent) {
        row.setAttribute("aria-current", "step");
      }
      return row;
    });
    listing.replaceChildren(element("pre", {}, ...rows));
    const current = listing.querySelector(".step-current");
    listing.scrollTop = current.offsetTop - listing.clientHeight / 3;
    const where = first === last ? `, line ${first}` : `, lines ${first} to ${last}`;
    find(".step-file").replaceChildren(code(`transformer_lib/${file}`), where);
  }

  /** A link to the section that explains an id; a call has met it and says what it is. */
  function linkTo(id) {
    const { says, place: where, href } = trace.ids[id];
    const words = `: ${says}, ${where}`;
    const link = element("a", { href, textContent: id, title: id + words });
    return element("li", {}, link, step().call ? words : "");
  }

  function showWords(value) {
    const { name, summary, formula, ids } = functionOf(step().frame);
    const { call, sizes } = step();
    const given = Object.entries(sizes).map(([key, number]) => `${key} = ${number}`);
    const words = [];
    if (call) {
      words.push(element("p", {}, code(name.split(".").at(-1)), ` is called. ${summary}`));
    } else {
      words.push(element("p", { className: "step-term", innerHTML: value[3] }));
    }
    if (call && formula) {
      words.push(element("pre", { className: "step-formula", textContent: formula }));
    }
    if (given.length) {
      words.push(element("p", {}, "Given: ", code(given.join(", "))));
    }
    const met = call ? step().ids : ids;
    words.push(element("ul", { className: call ? "step-ids" : "step-ids step-inline" }, ...met.map(linkTo)));
    find(".step-words").replaceChildren(...words);
  }

  function showNames(values, shown) {
    const buttons = values.map((value) => {
      const button = element("button", { type: "button", textContent: nameOf(value) });
      button.setAttribute("aria-pressed", String(value === shown));
      button.addEventListener("click", () => {
        chosen = value[0];
        show();
        find(`.step-names [aria-pressed="true"]`).focus();
      });
      return button;
    });
    find(".step-names").replaceChildren(...(buttons.length > 1 ? buttons : []));
  }

  function showValue(value) {
    const view = value && matricesOf(value, trace);
    const parts = view?.partNames ?? [];
    head = parts.length > head ? head : 0;
    find(".step-choice").hidden = !parts.length;
    find(".step-choice span").textContent = view?.partAxis === "heads" ? "Head" : (view?.partAxis ?? "");
    part.replaceChildren(...parts.map((name, i) => new Option(name, String(i), false, i === head)));
    numbers.hidden = !view || !isFloat(view.type);
    find(".step-shape").textContent = value ? `${nameOf(value)} ${shapeOf(value)}` : "No tensor is handed over.";
    find(".step-summary").textContent = view ? inWords(view) : "";
    if (view) {
      drawMap(find(".step-map"), view, head);
      showNumbers();
    } else {
      find(".step-map").replaceChildren();
    }
  }

  /** As in (batch=1, keys=3); an axis without a name is its size alone. */
  function shapeOf([, tensor, axes]) {
    const { shape } = trace.tensors[tensor];
    return `(${axes.map((axis, i) => (axis === String(shape[i]) ? axis : `${axis}=${shape[i]}`)).join(", ")})`;
  }

  function showNumbers() {
    numbers.querySelector(".live-scroll")?.remove();
    const value = trace && shownValue(); // without a trace a script or a print-out has opened the box
    if (numbers.open && value) {
      const table = numbersTable(matricesOf(value, trace), head);
      const box = element("div", { className: "live-scroll", tabIndex: 0, ariaLabel: "Numbers" }, table);
      box.setAttribute("role", "region");
      numbers.append(box);
    }
  }

  const shownValue = () => step().values.find(([name]) => name === chosen) ?? step().values[0];

  function show() {
    const value = shownValue();
    showStack();
    showPlace();
    showSource();
    showWords(value);
    showNames(step().values, value);
    showValue(value);
    range.value = String(at + 1);
    for (const button of place.querySelectorAll(".step-breakpoints button")) {
      const isHere = step().ids.includes(button.dataset.id);
      button.classList.toggle("step-here", isHere);
      button.setAttribute("aria-current", isHere ? "step" : "false");
    }
    const names = step().values.map(nameOf).join(", ");
    const what = step().call ? `${functionOf(step().frame).name} is called` : names;
    say(`Step ${at + 1} of ${trace.steps.length}: ${what}`);
  }

  // ── Loading ──────────────────────────────────────────────────────────────────────────────────────────────────

  function begin(loaded) {
    trace = loaded;
    const buttons = Object.entries(trace.ids).map(([id, { says }]) => {
      const button = element("button", { type: "button", textContent: says, title: id });
      button.dataset.id = id;
      const first = () => trace.steps.findIndex(meets(id));
      button.addEventListener("click", () => go(later(meets(id)) < 0 ? first() : later(meets(id))));
      return button;
    });
    find(".step-breakpoints").replaceChildren(element("span", { textContent: "Go to" }), ...buttons);
    range.max = String(trace.steps.length);
    loadForm.hidden = true;
    bench.hidden = false;
    go(0);
    find(".step-forward").focus();
  }

  async function load(event) {
    event.preventDefault();
    const button = loadForm.querySelector("button");
    button.disabled = true;
    say("Loading …");
    try {
      begin(await LiveTranslator.loadContent(place.dataset.static, "forward_trace"));
    } catch (error) {
      say(`Not loaded: ${error.message}`);
    } finally {
      button.disabled = false;
    }
  }

  function onKey(event) {
    const name = { ArrowLeft: "back", ArrowRight: "forward" }[event.key];
    const isPlain = !(event.altKey || event.ctrlKey || event.metaKey || event.shiftKey);
    if (name && isPlain && !event.target.matches("select, input, .step-map .live-scroll, .step-numbers .live-scroll")) {
      event.preventDefault();
      move(name);
    }
  }

  loadForm.hidden = false;
  const size = LiveTranslator.missing(place, ["forward_trace"]);
  loadForm.querySelector("button").textContent = `Step through: load ${size}`;
  loadForm.addEventListener("submit", load);
  for (const name of Object.keys(moves)) {
    find(`.step-${name}`).addEventListener("click", () => move(name));
  }
  bench.addEventListener("keydown", onKey);
  range.addEventListener("input", () => go(Number(range.value) - 1));
  part.addEventListener("change", () => {
    head = Number(part.value);
    show();
  });
  numbers.addEventListener("toggle", showNumbers);
  new MutationObserver(() => trace && show()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
})();
