/* The field on the first pages. A number below a hundred is answered from the record in the page; for a larger one the
   reader is asked whether to load a model. */
"use strict";

(() => {
  const place = document.getElementById("first-numbers");
  const find = (selector) => place.querySelector(selector);
  const [form, input, output] = [".first-form", "#first-text", ".first-written"].map(find);
  const hundred = JSON.parse(find(".first-hundred").textContent);
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const SLOW = 950; // milliseconds between two words, the first time
  const QUICK = 400;
  const MODEL = "number_words_en_de";
  const PARTS = ["onnxruntime", MODEL];
  const HEADS = [0, 1]; // of its last layer, as the record has two
  const END = "end";

  let shown = null; // { read, written, heads }: words with their end, and percent by head, row and column
  let count = 0; // words that stand there
  let chosen = -1; // the one that stands out
  let timer = 0;
  let translator = null;

  const head = () => Number(find("[name=first-head]:checked").value);
  const isTouched = () => matchMedia("(pointer: coarse)").matches; // a keyboard on the screen would cover the answer
  const say = (words) => {
    find("#first-problem").textContent = words;
    input.setAttribute("aria-invalid", String(words !== ""));
  };

  function draw() {
    const weights = shown.heads[head()];
    LiveTranslator.drawLooks(place, { ...shown, weights }, count, chosen, (row) => {
      stop();
      [count, chosen] = [shown.written.length, row];
      draw();
    });
    const words = shown.written.slice(0, count).filter((word) => word !== END);
    const text = words.join(" ") + (count < shown.written.length ? " …" : "");
    if (output.textContent !== text) {
      output.textContent = text;
    }
    if (count === 0 && document.activeElement === find(".first-back")) {
      find(".first-step").focus(); // a button that goes dead would take the focus with it
    }
    find(".first-back").disabled = count === 0;
  }

  function stop() {
    clearTimeout(timer);
    timer = 0;
  }

  /** One word more; after the last, all looks together. */
  function forward() {
    if (count < shown.written.length) {
      chosen = count;
      count += 1;
    } else {
      chosen = -1;
    }
    draw();
  }

  function play(pause) {
    stop();
    [count, chosen] = [isStill ? shown.written.length : 0, -1];
    draw();
    const next = () => {
      forward();
      timer = chosen < 0 ? 0 : setTimeout(next, pause);
    };
    if (!isStill) {
      timer = setTimeout(next, pause / 2);
    }
  }

  const recorded = ([english, german, heads]) => ({
    read: [...english.split(" "), END],
    written: [...german.split(" "), END],
    heads,
  });

  /** What the loaded model writes for a larger number. */
  async function computed(english) {
    const { attention, text } = await translator.translate(english);
    const percent = (matrix) => matrix.map((row) => [...row].map((weight) => Math.round(100 * weight)));
    const last = Object.keys(attention).filter((name) => name.endsWith(".cross")).at(-1);
    const heads = HEADS.map((number) => percent(attention[last][number]));
    return { read: [...english.split(" "), END], written: [...text.split(" "), END], heads };
  }

  function showSize() {
    find(".first-fetch").textContent = `Above 99 a larger model answers: load ${LiveTranslator.missing(place, PARTS)}`;
  }

  let asked = 0; // counts the answers, so that a slow one does not replace a later one

  async function answer(number) {
    const mine = ++asked;
    say("");
    place.dataset.number = number;
    const needsModel = number >= hundred.length && !translator;
    find(".first-load").hidden = !needsModel;
    place.classList.toggle("first-unknown", needsModel);
    if (needsModel) {
      stop();
      output.textContent = "…"; // what stood there is the answer to another number
      showSize();
      return;
    }
    const found = number < hundred.length ? recorded(hundred[number]) : await computed(LiveTranslator.englishNumber(number));
    if (mine === asked) {
      shown = found;
      find(".first-larger").hidden = number < hundred.length;
      find(".first-note").hidden = number >= hundred.length;
      play(QUICK);
    }
  }

  async function load() {
    try {
      const loading = LiveTranslator.loadTranslator(place.dataset.static, MODEL);
      translator = await LiveTranslator.withBar(place, PARTS, loading);
      await answer(Number(place.dataset.number));
      (isTouched() ? find("[type=submit]") : input).focus({ preventScroll: true });
    } catch (error) {
      say(`Not loaded: ${error.message}`);
    }
  }

  /** The number in the field, if there is one; while somebody types, nothing is wrong yet. */
  function readField(isFinished) {
    try {
      return LiveTranslator.readNumber(input.value);
    } catch (error) {
      if (isFinished) {
        say(error.message);
        stop();
        [find(".first-load").hidden, place.dataset.number, output.textContent] = [true, "", "…"]; // of a number before
        place.classList.add("first-unknown");
        if (!isTouched()) {
          input.select();
        }
      }
      return null;
    }
  }

  function submit(event) {
    event.preventDefault();
    clearTimeout(typing);
    const number = readField(true);
    if (number !== null) {
      announce();
      answer(number);
    }
  }

  const announce = () => output.setAttribute("aria-live", "polite"); // not before the reader acts
  let typing = 0;

  form.addEventListener("submit", submit);
  input.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      const number = readField(false);
      if (number !== null && String(number) !== place.dataset.number) {
        announce();
        answer(number);
      }
    }, 350);
  });
  find(".first-fetch").addEventListener("click", load);
  document.addEventListener("received", showSize);
  find(".first-again").addEventListener("click", () => (announce(), play(SLOW)));
  find(".first-step").addEventListener("click", () => {
    announce();
    stop();
    if (count === shown.written.length && chosen < 0) {
      count = 0; // from the beginning
    }
    forward();
  });
  find(".first-back").addEventListener("click", () => {
    announce();
    stop();
    count -= chosen < 0 && count === shown.written.length ? 0 : 1;
    chosen = count - 1;
    draw();
  });
  find(".first-heads").addEventListener("change", draw);
  addEventListener("beforeprint", () => {
    stop();
    [count, chosen] = [shown.written.length, -1];
    draw();
  });

  find("[type=submit]").disabled = false;
  shown = recorded(hundred[readField(false)] ?? hundred[47]);
  place.dataset.number = hundred.findIndex(([english]) => english === shown.read.slice(0, -1).join(" "));
  find(".first-steps").hidden = false;
  [count, chosen] = [shown.written.length, -1];
  draw();
  if (input.value !== input.defaultValue) {
    input.dispatchEvent(new Event("input")); // typed before this script came
  }
  const seen = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && !isStill && !place.matches(".ask-veiled")) {
      seen.disconnect();
      play(SLOW);
    }
  });
  seen.observe(find(".first-looks"));
  place.addEventListener("shown", () => {
    seen.disconnect();
    seen.observe(find(".first-looks")); // which says at once whether it is on the screen
  });
})();
