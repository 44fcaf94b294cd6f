/* Loading on request: ONNX Runtime, a translator, a step of training, a trace, each a script that hands its content to
   `receive`.

   Scripts, because a page opened from a file may load scripts but may not fetch; so there is one way for both. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const MOST_CHARACTERS = 1000; // the time to cut a text without spaces into pieces grows with its square
  const FORMAT = "transformer_lib page 1"; // of transformer_run/export/page.py
  const ONNX = 8; // the first byte of a graph
  const received = new Map();
  const scripts = new Map();

  /** Called by each loaded payload. */
  function receive(name, content) {
    received.set(name, content);
    document.dispatchEvent(new Event("received"));
  }

  /** How much of these parts of a place has to be loaded still; one unit for all sizes. */
  function missing(place, names) {
    const parts = JSON.parse(place.dataset.parts);
    const wanted = names.filter((name) => !received.has(name));
    const megabytes = wanted.reduce((sum, name) => sum + parts[name].sent, 0) / 1e6;
    return `${megabytes.toFixed(megabytes < 0.1 ? 2 : 1)} MB`;
  }

  let tries = 0;

  /** Load a script once; `arrived` tells whether its content is there, for a file that was cut off runs nothing. */
  function loadScript(url, arrived) {
    if (!scripts.has(url)) {
      const address = tries ? `${url}?${tries}` : url; // another one: a cache may keep what was cut off
      const fetching = Promise.resolve(LiveTranslator.fetched?.(address) ?? address); // of download.js
      scripts.set(url, fetching.then((here) => runScript(here, url, arrived)));
    }
    return scripts.get(url);
  }

  const runScript = (address, url, arrived) =>
    new Promise((resolve, reject) => {
      const element = document.createElement("script");
      element.src = address;
      element.onerror = () => {
        tries += 1;
        scripts.delete(url); // so that the reader can try again
        reject(new Error(`${url.split("/").at(-1)} did not arrive whole. Check the connection and press again.`));
      };
      element.onload = () => (arrived() ? resolve() : element.onerror());
      document.head.append(element);
    });

  /** What gzip packed, from a Blob. */
  async function gunzipped(blob) {
    if (typeof DecompressionStream === "undefined") {
      throw new Error("this browser cannot unpack the model. Use one from 2023 or later.");
    }
    const stream = blob.stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  function unpacked(base64) {
    const letters = atob(base64);
    return gunzipped(new Blob([new Uint8Array(letters.length).map((_, i) => letters.charCodeAt(i))]));
  }

  const blobAddress = (content, type) => URL.createObjectURL(new Blob([content], { type }));

  async function startRuntime(folder) {
    if (typeof WebAssembly === "undefined") {
      throw new Error("WebAssembly is switched off in this browser, and the model runs in it. Switch it on.");
    }
    const [{ module, wasm }] = await Promise.all([
      loadContent(folder, "onnxruntime"),
      loadScript(`${folder}vendor/onnxruntime/ort.wasm.min.js`, () => "ort" in globalThis),
    ]);
    ort.env.wasm.numThreads = 1; // more would need headers that a plain web server does not send
    ort.env.wasm.wasmPaths = {
      mjs: blobAddress(module, "text/javascript"),
      wasm: blobAddress(await unpacked(wasm), "application/wasm"),
    };
  }

  /** What the script of this name hands over. */
  async function loadContent(folder, name) {
    await loadScript(`${folder}live/${name}.js`, () => received.has(name));
    return received.get(name);
  }

  let runtime = null;

  /** Loads the runtime unless it is there, and keeps it. */
  function loadRuntime(folder) {
    runtime ??= startRuntime(folder).catch((error) => {
      runtime = null;
      throw error;
    });
    return runtime;
  }

  /** What the script of this name hands over; the runtime is there then too. */
  async function load(folder, name) {
    const [content] = await Promise.all([loadContent(folder, name), loadRuntime(folder)]);
    return content;
  }

  const makeSession = async (letters) =>
    ort.InferenceSession.create(await unpacked(letters), { executionProviders: ["wasm"] });

  /** A translator of this name, from the folder of static files. */
  async function loadTranslator(folder, name) {
    const saved = await load(folder, name);
    return new Translator(saved, await makeSession(saved.onnx));
  }

  /** A translator that `export --to page` wrote, from a file of the reader's; an Error that a reader can act on. */
  async function openTranslator(folder, file) {
    const failed = (why) => new Error(`${file.name} ${why}`);
    const read = (bytes) =>
      bytes[0] === ONNX ? { format: ONNX } : JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    const saved = await gunzipped(file)
      .then(read)
      .catch(() => {
        throw failed("is damaged, or no translator for this page. Write it anew with: export … --to page.");
      });
    if (saved?.format === ONNX) {
      const listed = "The files linked on this page are such graphs, for other tools; their translators stand in the list";
      throw failed(`is an ONNX graph without its words. ${listed}. You write your own with: export … --to page.`);
    }
    if (saved?.format !== FORMAT) {
      throw failed(`is of another kind: this page opens “${FORMAT}”. Write it with: export … --to page.`);
    }
    await loadRuntime(folder);
    const translator = await makeSession(saved.onnx)
      .then((session) => new Translator(saved, session))
      .catch((error) => {
        throw failed(`holds a model that cannot run here: ${error.message}`);
      });
    return translator;
  }

  /** Rows of ids, the shorter ones with padding at their end. */
  function tensor(rows) {
    const length = Math.max(...rows.map((row) => row.length));
    const padded = rows.flatMap((row) => [...row, ...Array(length - row.length).fill(LiveTranslator.special.PAD)]);
    return new ort.Tensor("int64", BigInt64Array.from(padded, BigInt), [rows.length, length]);
  }

  const floats = (values, dims) => new ort.Tensor("float32", Float32Array.from(values), dims);

  class Translator {
    #last = Promise.resolve(); // the runtime computes one thing at a time

    constructor(saved, session) {
      this.session = session;
      this.attentions = session.outputNames.filter((name) => name !== "logits"); // in the order of the gates
      [this.source, this.target] = [saved.source, saved.target]; // languages
      [this.heads, this.widthOfKeys, this.hundred] = [saved.num_heads, saved.d_k, saved.hundred];
      this.longest = saved.longest; // positions that the graph has encodings for
      this.sourceTokenizer = LiveTranslator.makeTokenizer(saved.source_tokenizer);
      this.targetTokenizer = LiveTranslator.makeTokenizer(saved.target_tokenizer);
    }

    get mostSourceTokens() {
      return this.longest - LiveTranslator.EXTRA;
    }

    /** Ids of the sentence with <eos>; an Error that a reader can act on if there is none, or too many. */
    encode(text) {
      if (text.length > MOST_CHARACTERS) {
        throw new RangeError(
          `The text has ${text.length} characters; this page takes up to ${MOST_CHARACTERS}. Shorten it.`,
        );
      }
      const ids = this.sourceTokenizer.encode(text);
      const [most, found] = [this.mostSourceTokens, ids.length + 1];
      if (ids.length === 0) {
        throw new RangeError("There is nothing to translate yet: type a sentence.");
      }
      if (found > most) {
        throw new RangeError(`The sentence has ${found} tokens; this page takes up to ${most}. Shorten it.`);
      }
      return [...ids, LiveTranslator.special.EOS];
    }

    /** The switches of a model as it was trained: a gate for each head, two factors. */
    asTrained() {
      const gates = this.attentions.map((name) => [name, Array(this.heads).fill(1)]);
      return { gates: Object.fromEntries(gates), scores: 1, positions: 1 };
    }

    /** From each source and the target inputs of its row to the logits of the next token and to the weights. */
    async run(sources, rows, { gates, scores, positions } = this.asTrained()) {
      const inputs = {
        source: tensor(sources),
        target_input: tensor(rows),
        head_gates: floats(this.attentions.flatMap((name) => gates[name]), [this.attentions.length, this.heads]),
        score_factor: floats([scores], []),
        position_factor: floats([positions], []),
      };
      const running = this.#last.then(() => this.session.run(inputs));
      this.#last = running.catch(() => null);
      const { logits, ...weights } = await running;
      const vocabulary = logits.dims[1];
      return {
        logits: rows.map((_, i) => logits.data.subarray(i * vocabulary, (i + 1) * vocabulary)),
        attention: (row) => attentionOf(weights, row),
      };
    }

    /** The function that the searches call: rows of target inputs of one source to logits and weights. */
    stepFor(source, switches) {
      return (rows) => this.run(rows.map(() => source), rows, switches);
    }

    async translate(text, beamSize = 1, switches = this.asTrained()) {
      const source = this.encode(text);
      const step = this.stepFor(source, switches);
      const search = beamSize === 1 ? LiveTranslator.greedySearch : LiveTranslator.beamSearch;
      let last = null;
      for await (last of search(step, source.length, beamSize === 1 ? [] : beamSize)) {
        // The last one counts.
      }
      return { source, ...last, text: this.targetTokenizer.decode(last.tokens) };
    }
  }

  /** For each attention, the weights of one row of the batch as [head][query][key]. */
  function attentionOf(weights, row) {
    return Object.fromEntries(
      Object.entries(weights).map(([name, { data, dims }]) => {
        const [, heads, queries, keys] = dims;
        const at = (head, query) => ((row * heads + head) * queries + query) * keys;
        const matrix = (head) =>
          Array.from({ length: queries }, (_, query) => data.slice(at(head, query), at(head, query) + keys));
        return [name, Array.from({ length: heads }, (_, head) => matrix(head))];
      }),
    );
  }

  Object.assign(LiveTranslator, { receive, missing, loadContent, load, makeSession, loadTranslator, openTranslator });
})();
