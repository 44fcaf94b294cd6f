/* Questions that the page answers. The rules of each were found from the chapter's own check when the site was built
   (workshop/course/page_answers.py): boxes of answers, and what the check says there. Progress stays in this browser. */
"use strict";

(() => {
  const KEY = "book-answers";
  const AGAIN = "Not yet. Think again, or open a hint.";

  // ── Progress ──

  let answers = {};
  let isKept = true;
  try {
    answers = JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    isKept = false; // a private window, or a browser that keeps nothing for files
  }

  function keep() {
    try {
      localStorage.setItem(KEY, JSON.stringify(answers));
    } catch {
      isKept = false;
    }
  }

  const counted = (labels) => `${labels.filter((label) => answers[label]?.right).length} of ${labels.length}`;

  // ── Reading an answer ──

  function numeral(text, comma) {
    const isGrouped = /^[1-9]\d{0,2}(,\d{3})+(\.\d+)?$/.test(text);
    const plain = isGrouped && !comma ? text.replaceAll(",", "") : text.replace(",", ".");
    return /^(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
  }

  // + - * / ^ ( ) ln sqrt; NaN for anything else. `comma`: a comma divides the decimals, also before three digits.
  function calculated(text, comma) {
    const plain = text.replace(/[−–]/g, "-").replace(/[×·]/g, "*").replaceAll("**", "^").replace(/√/g, "sqrt");
    const parts = plain.replace(/[\s_'’]/g, "").match(/[\d.,]+(?:e[+-]?\d+)?|ln|sqrt|[^]/gi) ?? [];
    const takes = (...signs) => (signs.includes(parts[0]?.toLowerCase()) ? parts.shift().toLowerCase() : null);

    function atom() {
      if (takes("-")) return -power();
      if (takes("+")) return power();
      const name = takes("ln", "sqrt");
      if (name) return name === "ln" ? Math.log(atom()) : Math.sqrt(atom());
      if (!takes("(")) return numeral(parts.shift() ?? "", comma);
      const inside = sum();
      return takes(")") ? inside : NaN;
    }
    function power() {
      const base = atom();
      return takes("^") ? base ** power() : base;
    }
    function product() {
      let value = power();
      for (let sign; (sign = takes("*", "/")); ) value = sign === "*" ? value * power() : value / power();
      return value;
    }
    function sum() {
      let value = product();
      for (let sign; (sign = takes("+", "-")); ) value = sign === "+" ? value + product() : value - product();
      return value;
    }
    const value = sum();
    return parts.length || !Number.isFinite(value) ? NaN : value;
  }

  const word = (text) => text.normalize("NFC").toLowerCase().replace(/[-=]+>/g, "→").replace(/[▁_<>\s]/g, "");

  // ── Judging ──

  function within(value, range) {
    if (range === null) return true;
    if (typeof range === "string") return value === word(range);
    const slack = 1e-9 * Math.max(1, Math.abs(value));
    return (range[0] === null || value >= range[0] - slack) && (range[1] === null || value <= range[1] + slack);
  }

  function written(value, style) {
    if (style === "g") return String(Number(value.toPrecision(6)));
    if (style === ",") return value.toLocaleString("en-US", { maximumFractionDigits: 6 });
    return style.endsWith("f") ? value.toFixed(Number(style[1])) : String(value);
  }

  function judged(question, values, texts) {
    const rule = question.rules.find(([box]) => box.every((range, i) => within(values[i], range)));
    if (!rule) return null;
    const fill = (_slot, i, style) => (style ? written(values[i], style) : texts[i]);
    return { words: question.words[rule[1]].replace(/\{(\d):([^}]*)\}/g, fill), right: rule[2] === 1 };
  }

  // The remark on what stands in the fields, and which of them cannot be read.
  function remark(question, texts) {
    const empty = texts.flatMap((text, i) => (text ? [] : [i]));
    const missing = texts.length > 1 ? "Fill in every field." : "There is no answer yet.";
    if (empty.length) return { words: missing, bad: empty };
    const isNumber = ["number", "whole"].includes(question.kind);
    if (!isNumber) return judged(question, texts.map(word), texts) ?? { words: AGAIN };
    const [values, others] = [false, true].map((comma) => texts.map((text) => calculated(text, comma)));
    const isBad = (value) => Number.isNaN(value) || (question.kind === "whole" && !Number.isInteger(value));
    const bad = values.flatMap((value, i) => (isBad(value) ? [i] : []));
    if (bad.length) {
      const asked = question.kind === "whole" ? "a whole number" : "a number";
      return { words: `“${texts[bad[0]]}” is not read as ${asked}.`, bad };
    }
    const first = judged(question, values, texts);
    const second = question.kind === "whole" || others.some(isBad) ? null : judged(question, others, texts);
    return (second?.right ? second : first) ?? { words: AGAIN };
  }

  // ── The forms of the page ──

  const forms = [...document.querySelectorAll("form.answer")];
  const labels = forms.map((form) => form.dataset.question);

  function count() {
    const link = document.createElement("a");
    link.href = "index.html#answers";
    link.textContent = "All chapters";
    const kept = isKept ? "" : " This browser does not keep them.";
    for (const form of forms) {
      form.querySelector(".answer-count").replaceChildren(
        `Answered on this page: ${counted(labels)}.${kept} `, link.cloneNode(true));
    }
  }

  for (const form of forms) {
    const { question: label } = form.dataset;
    const bytes = Uint8Array.from(atob(form.querySelector("script").textContent), (letter) => letter.charCodeAt(0));
    const question = JSON.parse(new TextDecoder().decode(bytes));
    const inputs = [...form.querySelectorAll("input")];
    const isChoice = inputs[0].type !== "text";
    const chosenNow = () => inputs.filter((one) => one.checked).map((one) => one.value);
    const read = () => (isChoice ? [chosenNow().join(" ")] : inputs.map((one) => one.value.trim()));

    function show(found) {
      const place = form.querySelector(".answer-remark");
      place.textContent = found.words;
      place.classList.toggle("right", found.right === true);
      if (isChoice) return;
      inputs.forEach((one, i) => one.setAttribute("aria-invalid", String(found.bad?.includes(i) ?? false)));
    }

    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const texts = read();
      const found = remark(question, texts);
      show(found);
      if (found.bad) return;
      answers[label] = { answer: texts, right: found.right === true || answers[label]?.right === true };
      keep();
      count();
    });

    const before = answers[label]?.answer;
    if (Array.isArray(before)) {
      const chosen = question.kind === "several" ? String(before[0]).split(" ") : before;
      if (isChoice) for (const one of inputs) one.checked = chosen.includes(one.value);
      else inputs.forEach((one, i) => { one.value = before[i] ?? ""; });
      show(remark(question, read()));
    }
    form.hidden = false;
  }
  count();

  // ── All chapters, on the first page ──

  const all = document.querySelector("details.answers");
  if (all) {
    const lines = [...all.querySelectorAll("li")].map((line) => [line, line.dataset.questions.split(" ")]);
    const status = all.querySelector("[role=status]");
    const update = () => {
      all.querySelector("summary span").textContent = counted(lines.flatMap(([, own]) => own));
      for (const [line, own] of lines) line.querySelector("span").textContent = counted(own);
    };
    all.querySelector(".answers-export").addEventListener("click", () => {
      const saved = new Date().toISOString();
      const text = JSON.stringify({ book: "The Executable Transformer", saved, answers }, null, 1);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = "transformer-answers.json";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      status.textContent = "Saved as transformer-answers.json.";
    });
    all.querySelector(".answers-clear").addEventListener("click", () => {
      if (!confirm("Clear all your answers in this browser?")) return;
      answers = {};
      keep();
      update();
      status.textContent = "Your answers are cleared.";
    });
    update();
    all.hidden = false;
    if (location.hash === "#answers") {
      all.open = true;
      all.scrollIntoView();
    }
  }
})();
