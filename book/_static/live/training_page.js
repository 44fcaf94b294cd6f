/* The place on the page: loads when asked to, trains step by step, and shows what has been learned. */
"use strict";

(() => {
  const { element, isPlain, summary, losses } = LiveTranslator;
  const place = document.getElementById("live-training");
  const find = (selector) => place.querySelector(selector);
  const [loadForm, bench, goButton] = [".live-load", ".live-bench", ".live-go"].map(find);
  const defects = find(".live-defect");
  const EVERY = 10; // steps from one judgement of all translations to the next

  let training = null;
  let playing = 0; // the number of the run that goes on, 0 while none does
  let runs = 0;
  let working = Promise.resolve(); // the steps that were asked for, one after the other
  let hidden = false; // paused because nobody looks
  let pace = 0; // milliseconds a step, averaged over the last ones
  let shown = 0; // when the page was drawn last

  const say = (text) => {
    find(".live-status").textContent = text;
  };
  function show() {
    shown = performance.now();
    LiveTranslator.showTraining(place, training, pace);
  }
  const goal = () => (Math.floor(training.step / training.task.num_steps) + 1) * training.task.num_steps;
  /** A moment for the page: it stays alive between two steps, however slow they are. */
  const breath = () => new Promise((resolve) => setTimeout(resolve));

  // ── Loading ──────────────────────────────────────────────────────────────────────────────────────────────────

  const parts = () => ["onnxruntime", "training", ...(defects ? [`training_${defects.value}`] : [])];

  function showLoading() {
    loadForm.querySelector("button").textContent = `Train it here: load ${LiveTranslator.missing(place, parts())}`;
    const { right, wrong, file } = defects?.selectedOptions[0].dataset ?? {};
    if (defects) {
      find(".live-change").replaceChildren(
        `${file}: `,
        element("code", { textContent: right }),
        " → ",
        element("code", { textContent: wrong }),
      );
    }
  }

  async function load(event) {
    event?.preventDefault();
    const [button, defect] = [loadForm.querySelector("button"), defects?.value];
    say("Loading …");
    try {
      const loading = LiveTranslator.loadTraining(place.dataset.static, defects ? [defect] : []);
      const loaded = await LiveTranslator.withBar(place, parts(), loading);
      if (defect !== defects?.value) {
        loaded.release();
        return load(event); // another one was chosen meanwhile
      }
      stop();
      const old = training;
      inTurn(() => old?.release());
      training = loaded;
      readChoices();
    } catch (error) {
      say(`Not loaded: ${error.message}`);
      return;
    }
    button.hidden = true;
    bench.hidden = false;
    LiveTranslator.fillSentences(find(".live-sentence"), training.task);
    await begin(0);
    if (event) {
      goButton.focus();
    }
    play();
  }

  // ── Running ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** Do this after all that was asked for before it. */
  function inTurn(act) {
    working = working.then(act).catch((error) => {
      stop(`Stopped: ${error.message}`);
    });
    return working;
  }

  async function learn() {
    const started = performance.now();
    await training.learn(Number(find(".live-factor")?.value ?? 1));
    const milliseconds = performance.now() - started;
    pace = training.step === 1 ? milliseconds : 0.9 * pace + 0.1 * milliseconds;
    if (training.diverged) {
      stop(`The loss of step ${training.step} is no number. Choose a smaller rate and start again.`);
    }
  }

  async function play() {
    const end = goal();
    const mine = ++runs;
    playing = mine;
    goButton.textContent = "Pause";
    say("Training.");
    while (playing === mine && training.step < end) {
      await inTurn(async () => {
        await learn();
        if (training.step % EVERY === 0) {
          await training.judge();
        }
      });
      if (performance.now() - shown > 100) {
        show();
      }
      await breath();
    }
    if (runs === mine) {
      show();
    }
    if (playing === mine) {
      stop(`${summary(training)} after ${training.step} steps.`);
    }
  }

  function stop(words) {
    playing = 0;
    goButton.textContent = "Train";
    if (words) {
      say(words);
    }
  }

  function pause(reason) {
    stop();
    inTurn(async () => {
      await training.judge();
      show();
      say(`Paused at step ${training.step}${reason}.`);
    });
  }

  function oneStep() {
    stop();
    inTurn(async () => {
      await learn();
      await training.judge();
      show();
      say(`Step ${training.step}: loss ${losses(training, 3)}.`);
    });
  }

  async function begin(seed) {
    stop(isPlain(place) ? `New numbers at random: start ${seed + 1}.` : `New weights from seed ${seed}.`);
    await inTurn(async () => {
      training.start(seed);
      await training.judge();
    });
    show();
  }

  // ── Choices ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** Take over what the reader withholds and adds; an Error says what is wrong with it. */
  function readChoices() {
    const withheld = LiveTranslator.parseNumbers(find(".live-withhold")?.value ?? "", training.task.numbers);
    training.task.choose(withheld, find(".live-own")?.value ?? "");
  }

  async function applyChoices(event) {
    event.preventDefault();
    find(".live-problem").textContent = "";
    stop();
    await working;
    try {
      readChoices();
    } catch (error) {
      find(".live-problem").textContent = error.message;
      return;
    }
    LiveTranslator.fillSentences(find(".live-sentence"), training.task);
    await begin(training.seed);
    play();
  }

  loadForm.hidden = false;
  loadForm.addEventListener("submit", load);
  defects?.addEventListener("change", () => {
    showLoading();
    if (training && !loadForm.querySelector("button").disabled) {
      stop();
      working.then(() => load());
    }
  });
  document.addEventListener("received", showLoading);
  goButton.addEventListener("click", () => (playing ? pause("") : play()));
  find(".live-step").addEventListener("click", oneStep);
  find(".live-again").addEventListener("click", () => begin(training.seed));
  find(".live-seed").addEventListener("click", () => begin(training.seed + 1));
  find(".live-sentence").addEventListener("change", show);
  find(".live-choices")?.addEventListener("submit", applyChoices);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && playing) {
      hidden = true;
      pause(": the page was hidden");
    } else if (!document.hidden && hidden) {
      hidden = false;
      play();
    }
  });
  const redraw = () => training?.models[0].scores.length && show();
  addEventListener("resize", redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  showLoading();
})();
