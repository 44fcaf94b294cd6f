/* Large scripts by way of fetch, so that a bar can say how far they are. A page opened from a file may not fetch; there
   the script elements of runtime.js load them, and the bar only says that something goes on. */
"use strict";

globalThis.LiveTranslator ??= {};

(() => {
  const atHand = new Map(); // address of a script → address of the same bytes in memory

  async function fetched(url, report) {
    const response = await fetch(url).catch(() => null);
    const parts = [];
    for (let reader = response?.ok && response.body.getReader(); reader; ) {
      const { done, value } = await reader.read().catch(() => ({ done: true, value: null }));
      if (done) {
        atHand.set(url, URL.createObjectURL(new Blob(parts, { type: "text/javascript" })));
        return;
      }
      parts.push(value);
      report(value.length);
    }
  }

  /** Fetch scripts from the folder of static files; `sizes` is file → bytes. Reports the share that is here, 0 to 1.

      What does not arrive is left to runtime.js, which asks once more and says what is missing. */
  async function download(folder, sizes, report) {
    if (location.protocol === "file:") {
      return;
    }
    const whole = Object.values(sizes).reduce((a, b) => a + b, 0);
    let here = 0;
    const count = (bytes) => report((here += bytes) / whole);
    await Promise.all(Object.keys(sizes).map((file) => fetched(`${folder}${file}`, count)));
  }

  Object.assign(LiveTranslator, { atHand, download });
})();
