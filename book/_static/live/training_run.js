/* Models in training: weights drawn from a seed, steps by the exported graph, translations by the other one. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  /** Even numbers from 0 to 1: shifts and exclusive ors of 32 bits, after Marsaglia (2003). */
  function randomNumbers(seed) {
    let bits = Math.imul(seed + 1, 0x9e3779b1) || 1;
    const next = () => {
      bits ^= bits << 13;
      bits ^= bits >>> 17;
      bits ^= bits << 5;
      return ((bits >>> 0) + 0.5) / 2 ** 32;
    };
    Array.from({ length: 20 }, next); // the first ones of neighbouring seeds are alike
    return next;
  }

  const normal = (next) => Math.sqrt(-2 * Math.log(next())) * Math.cos(2 * Math.PI * next());

  /** All weights in one vector, drawn as the library draws them. */
  function initialWeights(task, seed) {
    const next = randomNumbers(seed);
    const draw = {
      uniform: (size) => size * (2 * next() - 1),
      normal: (size) => size * normal(next),
      constant: (size) => size,
    };
    const parts = task.weights.map(({ shape, drawn, size }) => {
      const count = shape.reduce((a, b) => a * b, 1);
      return Array.from({ length: count }, () => draw[drawn](size));
    });
    return Float32Array.from(parts.flat());
  }

  /** Equation (3). */
  const learningRate = (task, step) =>
    task.d_model ** -0.5 * Math.min(step ** -0.5, step * task.warmup_steps ** -1.5);

  const vector = (values) => new ort.Tensor("float32", values, [values.length]);
  const scalar = (value) => new ort.Tensor("float32", [value], []);

  /** One model: its weights, the two averages of Adam, and what happened so far. */
  class Model {
    constructor(task, sessions) {
      Object.assign(this, { task, sessions });
    }

    start(seed) {
      this.weights = initialWeights(this.task, seed);
      [this.m, this.v] = [0, 1].map(() => new Float32Array(this.weights.length));
      Object.assign(this, { losses: [], cross: null, scores: [], tokens: [] });
    }

    /** One step on the batch of the task; the loss is that before the step. */
    async learn(step, rate) {
      const { rows, source_length, target_length, batch } = this.task;
      const ids = (values, width) => new ort.Tensor("int64", values, [rows, width]);
      const found = await this.sessions.step.run({
        weights: vector(this.weights),
        m: vector(this.m),
        v: vector(this.v),
        rate: scalar(rate),
        step_num: scalar(step),
        source: ids(batch.source, source_length),
        target_input: ids(batch.targetInput, target_length),
        target_output: ids(batch.targetOutput, target_length),
      });
      [this.weights, this.m, this.v] = ["new_weights", "new_m", "new_v"].map((name) => found[name].data);
      this.cross = found.cross;
      this.losses.push(found.loss.data[0]);
    }

    /** Translate every sentence, and count what is right. */
    async judge(step) {
      const { rows, source_length, batch, sentences, numbers, withheld } = this.task;
      const source = new ort.Tensor("int64", batch.source, [rows, source_length]);
      const { tokens } = await this.sessions.greedy.run({ weights: vector(this.weights), source });
      const [, long] = tokens.dims;
      const ids = Array.from(tokens.data, Number);
      this.tokens = sentences.map((_, row) => ids.slice(row * long, (row + 1) * long));
      this.isRight = sentences.map(({ target }, row) => target.every((id, i) => this.tokens[row][i] === id));
      const count = (wanted) => this.isRight.slice(0, numbers).filter((right, n) => right && wanted(n)).length;
      this.scores = this.scores.filter((score) => score.step !== step);
      this.scores.push({ step, learned: count((n) => !withheld.has(n)), withheld: count((n) => withheld.has(n)) });
    }

    /** The cross-attention of one sentence: for each head its rows, one for each token of the target. */
    attention(row) {
      const [, heads, queries, keys] = this.cross.dims;
      const { source, target } = this.task.sentences[row];
      const cell = (head, query, key) => this.cross.data[((row * heads + head) * queries + query) * keys + key];
      return Array.from({ length: heads }, (_, head) =>
        target.map((_, query) => source.map((_, key) => cell(head, query, key))),
      );
    }
  }

  /** Models that learn side by side from the same batches, from the same initial weights. */
  class Training {
    constructor(task, models) {
      Object.assign(this, { task, models });
      this.start(0);
    }

    start(seed) {
      Object.assign(this, { seed, step: 0, rate: 0 });
      this.models.forEach((model) => model.start(seed));
    }

    async learn(factor = 1) {
      const step = this.step + 1;
      const rate = factor * learningRate(this.task, step);
      for (const model of this.models) {
        await model.learn(step, rate);
      }
      Object.assign(this, { step, rate });
    }

    async judge() {
      for (const model of this.models) {
        await model.judge(this.step);
      }
    }

    /** The memory of the graphs is not the page's, so nobody else gives it back. */
    release() {
      for (const { sessions } of this.models) {
        Object.values(sessions).forEach((session) => session.release());
      }
    }

    get diverged() {
      return this.models.some(({ losses }) => losses.length && !Number.isFinite(losses.at(-1)));
    }
  }

  async function loadModel(folder, task, saved) {
    const [step, greedy] = [await LiveTranslator.makeSession(saved.step), await LiveTranslator.makeSession(saved.greedy)];
    return new Model(task, { step, greedy });
  }

  /** The model as it should be, and beside it one for each defect that is named. */
  async function loadTraining(folder, defects = []) {
    const saved = await LiveTranslator.load(folder, "training");
    const task = new LiveTranslator.Task(saved.task);
    const models = [await loadModel(folder, task, saved)];
    for (const defect of defects) {
      models.push(await loadModel(folder, task, await LiveTranslator.load(folder, `training_${defect}`)));
    }
    return new Training(task, models);
  }

  Object.assign(LiveTranslator, { loadTraining, initialWeights, learningRate });
})();
