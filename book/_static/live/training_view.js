/* What the page shows of a training: figures, curves, and for each model its translations and its maps. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const { element } = LiveTranslator;

  /** How many numbers each model has right, in words. */
  function summary({ task: { numbers, withheld }, models }) {
    const counts = models.map(({ scores }) => {
      const last = scores.at(-1);
      return withheld.size
        ? `${last.learned} of ${numbers - withheld.size} numbers right, and ${last.withheld} of the ${withheld.size} withheld`
        : `${last.learned} of ${numbers} numbers right`;
    });
    return counts.length > 1 ? `Healthy: ${counts[0]}. With the defect: ${counts[1]},` : `${counts[0]},`;
  }

  const losses = ({ models }, digits) =>
    models.map((model) => model.losses.at(-1)?.toFixed(digits) ?? "–").join(" | ");

  /** The loss of a model that gives every token exactly its share of the smoothed target. */
  function lowestLoss({ epsilon_ls: epsilon, vocabulary_size: size }) {
    const [right, other] = [1 - epsilon + epsilon / size, epsilon / size];
    return -right * Math.log(right) - (size - 1) * other * Math.log(other);
  }

  function showCurves(place, training) {
    const { models, task, step } = training;
    const across = Math.max(task.num_steps, Math.ceil(step / 50) * 50);
    const curves = models.map((model, i) => ({
      points: model.losses.map((loss, at) => [at + 1, loss]).filter(([, loss]) => Number.isFinite(loss)),
      second: i === 1,
    }));
    LiveTranslator.drawCurves(place.querySelector(".live-losses"), curves, {
      across,
      floor: lowestLoss(task),
      up: 5,
      unit: "loss, nats per token",
      words: `Loss after ${step} steps: ${losses(training, 3)} nats per token`,
    });
    const share = (model, key, of, second) => ({
      points: model.scores.map((score) => [score.step, (100 * score[key]) / of]),
      second,
    });
    const { numbers, withheld } = task;
    const shares = models.map((model, i) => share(model, "learned", numbers - withheld.size, i === 1));
    if (withheld.size) {
      shares.push(share(models[0], "withheld", withheld.size, true));
    }
    LiveTranslator.drawCurves(place.querySelector(".live-scores"), shares, {
      across,
      up: 100,
      unit: "per cent right",
      words: summary(training).slice(0, -1),
    });
  }

  function showModel(column, model, task, row) {
    const { text, right, source, target } = task.sentences[row];
    const written = task.decode(model.tokens[row]) || "nothing";
    const verdict = model.isRight[row] ? "right" : `should be ${right}`;
    column
      .querySelector(".live-written")
      .replaceChildren(`${text} → `, element("b", { textContent: written, lang: "de" }), ` (${verdict})`);
    LiveTranslator.drawNumbers(column.querySelector(".live-numbers"), model.isRight, task.withheld, task.numbers);
    const maps = column.querySelector(".live-cross");
    if (model.cross) {
      const label = (id) => task.vocabulary[id];
      LiveTranslator.drawMaps(maps, model.attention(row), target.map(label), source.map(label));
    } else {
      maps.replaceChildren(); // before the first step nobody has looked at anything
    }
  }

  /** Draw all of it; `pace` is in milliseconds a step. */
  function showTraining(place, training, pace) {
    const { step, rate, models, seed, task } = training;
    place.querySelector(".live-figures").textContent =
      `step ${step} · loss ${losses(training, 4)} · rate ${rate.toFixed(5)} · ${pace.toFixed(0)} ms a step · seed ${seed}`;
    showCurves(place, training);
    const row = Number(place.querySelector(".live-sentence").value);
    const columns = place.querySelectorAll(".live-model");
    models.forEach((model, i) => showModel(columns[i], model, task, row));
  }

  /** The sentences to choose from; the one that was chosen stays, if it is still there. */
  function fillSentences(list, task) {
    const chosen = task.sentences[list.value] ? list.value : "47";
    const name = ({ text }, row) => (row < task.numbers ? `${row} ${text}` : text);
    const options = task.sentences.map((sentence, row) =>
      element("option", { value: String(row), textContent: name(sentence, row) }),
    );
    list.replaceChildren(...options);
    list.value = chosen;
  }

  Object.assign(LiveTranslator, { summary, losses, showTraining, fillSentences });
})();
