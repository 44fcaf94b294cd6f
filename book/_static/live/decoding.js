/* Greedy and beam search, as transformer_lib/decoding.py has them, one step at a time.

   `step(rows)` runs the model on target inputs of one length and gives, for each, the logits of the next token. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const { PAD, BOS, EOS } = LiveTranslator.special;
  const EXTRA = 50; // tokens a translation may have more than its source (section 6.1)
  const ALPHA = 0.6;

  function logProbabilities(logits) {
    let largest = -Infinity;
    for (const value of logits) {
      largest = Math.max(largest, value);
    }
    let sum = 0;
    for (const value of logits) {
      sum += Math.exp(value - largest);
    }
    const found = Float64Array.from(logits, (value) => value - largest - Math.log(sum));
    found[PAD] = -Infinity; // not a word of the language
    return found;
  }

  /** The places of the `count` largest values, largest first; of equal ones the earlier. */
  function largestPlaces(values, count) {
    const best = [];
    for (let i = 0; i < values.length; i++) {
      if (best.length < count || values[i] > values[best.at(-1)]) {
        let at = best.length;
        while (at > 0 && values[best[at - 1]] < values[i]) {
          at -= 1;
        }
        best.splice(at, 0, i);
        best.length = Math.min(best.length, count);
      }
    }
    return best;
  }

  function candidates(logProbability, count = 5) {
    return largestPlaces(logProbability, count).map((id) => ({ id, probability: Math.exp(logProbability[id]) }));
  }

  /** The likeliest token again and again until <eos>. Yields after each.

      `start` are tokens that the reader has chosen; the model goes on from there. */
  async function* greedySearch(step, sourceLength, start = []) {
    const tokens = [...start];
    const limit = Math.max(sourceLength + EXTRA, tokens.length + 1);
    while (tokens.at(-1) !== EOS && tokens.length < limit) {
      const { logits, attention } = await step([[BOS, ...tokens]]);
      const best = candidates(logProbabilities(logits[0]));
      tokens.push(best[0].id);
      const done = best[0].id === EOS || tokens.length === limit;
      yield { tokens: [...tokens], candidates: best, attention: attention(0), done };
    }
  }

  const penalty = (length) => ((5 + length) / 6) ** ALPHA;

  /** Every candidate by every token: the 2 · beamSize likeliest, as { parent, token, total }. */
  function extensions(beams, logits, beamSize) {
    const vocabulary = logits[0].length;
    const totals = new Float64Array(beams.length * vocabulary);
    beams.forEach((beam, i) => {
      logProbabilities(logits[i]).forEach((value, token) => {
        totals[i * vocabulary + token] = beam.total + value;
      });
    });
    return largestPlaces(totals, 2 * beamSize).map((place) => ({
      parent: Math.floor(place / vocabulary),
      token: place % vocabulary,
      total: totals[place],
    }));
  }

  const finishedHypothesis = (tokens, total) => ({ tokens, total, score: total / penalty(tokens.length) });

  /** The beamSize likeliest candidates grow side by side. Yields after each step the likeliest, at last the winner. */
  async function* beamSearch(step, sourceLength, beamSize = 4) {
    const limit = sourceLength + EXTRA;
    let beams = [{ tokens: [], total: 0 }];
    let finished = [];
    for (let length = 1; ; length++) {
      const { logits, attention } = await step(beams.map((beam) => [BOS, ...beam.tokens]));
      const grown = extensions(beams, logits, beamSize).filter(({ total }) => total > -Infinity);
      const withTokens = grown.map((g) => ({ ...g, tokens: [...beams[g.parent].tokens, g.token] }));
      finished.push(
        ...withTokens
          .slice(0, beamSize)
          .filter(({ token }) => token === EOS)
          .map(({ tokens, total }) => finishedHypothesis(tokens, total)),
      );
      beams = withTokens.filter(({ token }) => token !== EOS).slice(0, beamSize);
      if (length === limit) {
        finished.push(...beams.map(({ tokens, total }) => finishedHypothesis(tokens, total)));
      }
      finished = finished.sort((a, b) => b.score - a.score).slice(0, beamSize);
      const worstKept = finished.length === beamSize ? finished.at(-1).score : -Infinity;
      const done = length === limit || beams[0].total / penalty(length) <= worstKept;
      if (done) {
        const { tokens } = finished[0];
        const winner = await step([[BOS, ...tokens.slice(0, -1)]]);
        yield { tokens, beams, finished, attention: winner.attention(0), done };
        return;
      }
      yield { tokens: beams[0].tokens, beams, finished, attention: attention(beams[0].parent), done };
    }
  }

  Object.assign(LiveTranslator, { greedySearch, beamSearch, logProbabilities, candidates, EXTRA });
})();
