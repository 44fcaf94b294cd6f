/* Large scripts by way of fetch, so that a bar can say how far they are. A page opened from a file may not fetch; there
   the script elements of runtime.js load them, and the bar only says that something goes on. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const arrived = new Map(); // address of a script, without a query → its bytes that are here

  /** The address of the same script in memory. What does not come keeps its own: the script element says so. */
  async function fetched(address) {
    const [url, parts] = [address.split("?")[0], []];
    arrived.set(url, 0);
    const response = location.protocol === "file:" ? null : await fetch(address).catch(() => null);
    if (!response?.ok) {
      return address;
    }
    for (const reader = response.body.getReader(); ; ) {
      const { done, value } = await reader.read().catch(() => ({ done: true }));
      if (done) {
        return URL.createObjectURL(new Blob(parts, { type: "text/javascript" }));
      }
      parts.push(value);
      arrived.set(url, arrived.get(url) + value.length);
    }
  }

  /** The same promise; until it is settled, the bar of the place says how much has come of what was missing of these
      parts, and the button beside it rests. */
  async function withBar(place, names, loading) {
    const bar = place.querySelector(".live-loading");
    const button = bar.parentElement.querySelector("button");
    const parts = JSON.parse(place.dataset.parts);
    const here = ([file]) => arrived.get(place.dataset.static + file) ?? 0;
    const files = names.flatMap((name) => Object.entries(parts[name].files));
    const wanted = files.filter((file) => here(file) < file[1]);
    const sum = (of) => wanted.reduce((bytes, file) => bytes + of(file), 0);
    const draw = () => {
      if (sum(here)) {
        bar.value = sum(here) / sum(([, bytes]) => bytes);
      }
    };
    bar.removeAttribute("value");
    [button.disabled, bar.hidden] = [true, false];
    const timer = setInterval(draw, 100);
    try {
      return await loading;
    } finally {
      clearInterval(timer);
      draw();
      [button.disabled, bar.hidden] = [false, true];
    }
  }

  Object.assign(LiveTranslator, { fetched, withBar });
})();
