/* The place on the page: loads when asked to, trains step by step, and shows what has been learned. */
"use strict";

(() => {
  const { element } = LiveTranslator;
  const place = document.getElementById("live-training");
  const find = (selector) => place.querySelector(selector);
  const [loadForm, bench, goButton] = [".live-load", ".live-bench", ".live-go"].map(find);
  const defects = find(".live-defect");
  const columns = [...place.querySelectorAll(".live-model")];
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
  const goal = () => (Math.floor(training.step / training.task.num_steps) + 1) * training.task.num_steps;
  /** A moment for the page: it stays alive between two steps, however slow they are. */
  const breath = () => new Promise((resolve) => setTimeout(resolve));

  // ── Loading ──────────────────────────────────────────────────────────────────────────────────────────────────

  const wantedBytes = () => Number(place.dataset.bytes) + Number(defects?.selectedOptions[0].dataset.bytes ?? 0);

  function showLoading() {
    const kilobytes = Math.round(wantedBytes() / 1000).toLocaleString("en");
    loadForm.querySelector("button").textContent = `Train it here: load ${kilobytes} kB`;
    const { right, wrong, file } = defects?.selectedOptions[0].dataset ?? {};
    if (defects) {
      find(".live-change").replaceChildren(
        `${file}: `, element("code", { textContent: right }), " → ", element("code", { textContent: wrong }),
      );
    }
  }

  async function load(event) {
    event?.preventDefault();
    say("Loading …");
    try {
      training = await LiveTranslator.loadTraining(place.dataset.static, defects ? [defects.value] : []);
      readChoices();
    } catch (error) {
      say(`Not loaded: ${error.message}`);
      return;
    }
    loadForm.querySelector("button").hidden = true;
    bench.hidden = false;
    fillSentences();
    await begin(0);
    goButton.focus();
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
    if (playing === mine) {
      show();
      stop(`${summary()} after ${training.step} steps.`);
    }
  }

  function stop(words) {
    playing = 0;
    goButton.textContent = "Train";
    if (words) {
      say(words);
    }
  }

  function pause(words) {
    stop(words);
    return inTurn(async () => {
      await training.judge();
      show();
    });
  }

  async function begin(seed) {
    stop(`New weights from seed ${seed}.`);
    await inTurn(async () => {
      training.start(seed);
      await training.judge();
    });
    show();
  }

  // ── Showing ──────────────────────────────────────────────────────────────────────────────────────────────────

  function summary() {
    const { numbers, withheld } = training.task;
    const counts = training.models.map(({ scores }) => {
      const { learned, withheld: guessed } = scores.at(-1);
      return withheld.size
        ? `${learned} of ${numbers - withheld.size} numbers right, and ${guessed} of the ${withheld.size} withheld`
        : `${learned} of ${numbers} numbers right`;
    });
    return counts.length > 1 ? `Healthy: ${counts[0]}. With the defect: ${counts[1]};` : `${counts[0]},`;
  }

  function showCurves() {
    const { models, task, step } = training;
    const across = Math.max(task.num_steps, Math.ceil(step / 50) * 50);
    const even = 1 - task.epsilon_ls + task.epsilon_ls / task.vocabulary_size;
    const rest = task.epsilon_ls / task.vocabulary_size;
    const floor = -even * Math.log(even) - (task.vocabulary_size - 1) * rest * Math.log(rest);
    const losses = models.map((model, i) => ({
      points: model.losses.map((loss, at) => [at + 1, loss]).filter(([, loss]) => Number.isFinite(loss)),
      second: i === 1,
    }));
    const last = models.map(({ losses: all }) => all.at(-1)?.toFixed(3) ?? "–").join(" and ");
    LiveTranslator.drawCurves(find(".live-losses"), losses, {
      across, floor, up: 5, unit: "loss, nats per token", words: `Loss after ${step} steps: ${last} nats per token`,
    });
    const { numbers, withheld } = task;
    const share = (key, of) => (model, i) => ({
      points: model.scores.map((score) => [score.step, (100 * score[key]) / of]),
      second: key === "withheld" || i === 1,
    });
    const scores = models.map(share("learned", numbers - withheld.size));
    if (withheld.size) {
      scores.push(share("withheld", withheld.size)(models[0], 0));
    }
    LiveTranslator.drawCurves(find(".live-scores"), scores, {
      across, up: 100, unit: "per cent right", words: summary().slice(0, -1),
    });
  }

  function showModel(model, at) {
    const { task } = training;
    const row = Number(find(".live-sentence").value);
    const { text, right, source, target } = task.sentences[row];
    const column = columns[at];
    const written = task.decode(model.tokens[row]) || "nothing";
    const verdict = model.isRight[row] ? "right" : `should be ${right}`;
    column.querySelector(".live-written").replaceChildren(
      `${text} → `, element("b", { textContent: written, lang: "de" }), ` (${verdict})`,
    );
    LiveTranslator.drawNumbers(column.querySelector(".live-numbers"), model.isRight, task.withheld, task.numbers);
    if (model.cross) {
      const label = (id) => task.vocabulary[id];
      const maps = column.querySelector(".live-cross");
      LiveTranslator.drawMaps(maps, model.attention(row), target.map(label), source.map(label));
    }
  }

  function show() {
    shown = performance.now();
    const { step, rate, models, seed } = training;
    const losses = models.map(({ losses: all }) => all.at(-1)?.toFixed(4) ?? "–").join(" | ");
    find(".live-figures").textContent =
      `step ${step} · loss ${losses} · rate ${rate.toFixed(5)} · ${pace.toFixed(0)} ms a step · seed ${seed}`;
    showCurves();
    models.forEach(showModel);
  }

  function fillSentences() {
    const list = find(".live-sentence");
    const before = list.value || "47";
    const options = training.task.sentences.map(({ text }, row) =>
      element("option", { value: String(row), textContent: row < training.task.numbers ? `${row} ${text}` : text }),
    );
    list.replaceChildren(...options);
    list.value = options[before] ? before : "47";
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
    stop("");
    await working;
    try {
      readChoices();
    } catch (error) {
      find(".live-problem").textContent = error.message;
      return;
    }
    fillSentences();
    await begin(training.seed);
    play();
  }

  loadForm.hidden = false;
  loadForm.addEventListener("submit", load);
  defects?.addEventListener("change", () => {
    showLoading();
    if (training) {
      stop("");
      working.then(() => load());
    }
  });
  goButton.addEventListener("click", () => (playing ? pause(`Paused at step ${training.step}.`) : play()));
  find(".live-step").addEventListener("click", () => {
    stop("");
    inTurn(learn).then(() => pause(""));
  });
  find(".live-again").addEventListener("click", () => begin(training.seed));
  find(".live-seed").addEventListener("click", () => begin(training.seed + 1));
  find(".live-sentence").addEventListener("change", show);
  find(".live-choices")?.addEventListener("submit", applyChoices);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && playing) {
      hidden = true;
      pause(`Paused at step ${training.step}: the page was hidden.`);
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
