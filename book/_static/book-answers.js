/* Questions that the page answers, by rules from the chapter's own check (workshop/course/page_answers.py). */
"use strict";

(() => {
  const KEY = "book-answers";
  const AGAIN = "Not yet. Think again, or open a hint.";
  const ROUNDED = "Right as far as it goes. Give more decimals.";
  const SLIPS = {
    "The right numbers, in the wrong fields.": (all) => all.toReversed(),
    "Right but for the sign.": (all) => all.map((one) => -one),
  };

  // Progress

  let answers = {};
  let isKept = true;
  try {
    answers = JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    isKept = false; // a private window, or pages from files
  }

  function keep() {
    try {
      localStorage.setItem(KEY, JSON.stringify(answers));
    } catch {
      isKept = false;
    }
  }

  const counted = (labels) => `${labels.filter((label) => answers[label]?.right).length} of ${labels.length}`;

  // Reading an answer

  // 12,000.5 or, with the comma for decimals, 12.000,5.
  function numeral(text, comma) {
    const english = comma ? text.replace(/[.,]/g, (sign) => (sign === "," ? "." : ",")) : text;
    const isGrouped = /^[1-9]\d{0,2}(,\d{3})+(\.\d+)?$/.test(english);
    const plain = isGrouped ? english.replaceAll(",", "") : text.replace(",", ".");
    return /^(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
  }

  // The digit 0 to 9 that a digit of any script stands for; each script has its ten in one row.
  function digit(letter) {
    const place = letter.codePointAt(0);
    let zero = place;
    while (/\p{Nd}/u.test(String.fromCodePoint(zero - 1))) zero -= 1;
    return (place - zero) % 10;
  }

  // A calculation as phones and input methods write it, in ASCII: wide digits, ½, ², ÷, any minus; "= 2 1/3 nats".
  // A space between digits stays unless it groups three: two numbers are not one.
  function ascii(text, label) {
    const parts = text
      .replace(/[\p{Cf}_'’]/gu, "")
      .replace(/\p{Nd}/gu, digit)
      .replace(/(\d*)\s*([¼-¾⅐-⅞])/g, (_all, whole, part) => `(${whole || 0}+${part.normalize("NFKC")})`)
      .replace(/[⁻⁰¹²³⁴-⁹]+/g, (power) => `^(${power.normalize("NFKC")})`)
      .normalize("NFKC")
      .replace(/[−‐-―]/g, "-").replace(/[×·⋅∙∗•]|(?<!\p{L})x(?!\p{L})/giu, "*").replace(/[÷⁄∕]|:(?=\s*\d)/g, "/")
      .replaceAll("**", "^").replace(/[٫。]/g, ".").replaceAll("٬", ",").replaceAll("٪", "%").replace(/√/g, "sqrt")
      .replace(/\b(math|np|torch)\./g, "").replace(/\blog\s+/gi, "ln ")
      .split(/[=≈~≃≅]/).map((part) => part.trim().replace(/[.,;!?:]+$/, "")).filter((part) => /\d/.test(part));
    return withoutUnit(parts.at(-1) ?? "", label)
      .replace(/(?<![\d.,])(\d+)\s+(\d{1,2})\s*\/\s*(\d+)/g, "($1+$2/$3)")
      .replace(/(?<=\d)\s(?=\d{3}(?!\d))/g, "")
      .replace(/(?<!\d)\s+|\s+(?!\d)/g, "");
  }

  const TIMES = { k: "e3", thousand: "e3", M: "e6", million: "e6", billion: "e9", percent: "%" };

  // Without the words after a number. A unit that the question lacks stays, and is not read.
  function withoutUnit(text, label) {
    const [, number, words] = /^(.*[\d.)%])\s*((?!(?:π|pi|e)(?!\p{L}))\p{L}[^\d()]*)$/su.exec(text) ?? [null, text, ""];
    const [, times, unit] = /^(k|M|thousand|million|billion|percent)?(?!\p{L})\s*(\p{L}*)/u.exec(words) ?? [null, "", words];
    const isOther = /^([kmgt]i?b|[kmg]?bytes?|bits?|[mµn]s)$/i.test(unit) && !label.toLowerCase().split(/\W/).includes(unit.toLowerCase());
    return isOther ? text : number + (TIMES[times] ?? "");
  }

  // + - * / ^ ( ) % and functions; NaN for anything else. `comma`: a comma divides the decimals, also before three digits.
  // `percent`: what % stands for. `label`: of the field.
  const FUNCTIONS = { ln: Math.log, log: Math.log, log2: Math.log2, log10: Math.log10, exp: Math.exp, sqrt: Math.sqrt };

  function calculated(text, comma, percent, label) {
    const signs = /[\d.,]+(?:e[+-]?\d+)?|log(?:2|10)(?=\()|log|ln|exp|sqrt|[^]/gi;
    const parts = ascii(text, label).match(signs) ?? [];
    const takes = (...signs) => (signs.includes(parts[0]?.toLowerCase()) ? parts.shift().toLowerCase() : null);

    function atom() {
      if (takes("-")) return -power();
      if (takes("+")) return power();
      const name = takes(...Object.keys(FUNCTIONS));
      if (name) return FUNCTIONS[name](atom());
      if (!takes("(")) return numeral(parts.shift() ?? "", comma);
      const inside = sum();
      return takes(")") ? inside : NaN;
    }
    function power() {
      const base = atom() * (takes("%") ? percent : 1);
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

  const word = (text) => text.normalize("NFKC").toLowerCase()
    .replace(/[-=−‐-―]+>|[⇒⟶➔➝➞]/g, "→").replace(/[▁_<>\s\p{Cf}]/gu, "");

  // Judging

  function within(value, range) {
    if (range === null) return true;
    if (typeof range === "string") return value === word(range);
    const slack = 1e-9 * Math.max(1, Math.abs(value));
    return (range[0] === null || value >= range[0] - slack) && (range[1] === null || value <= range[1] + slack);
  }

  function judged(question, values) {
    const rule = question.rules.find(([box]) => box.every((range, i) => within(values[i], range)));
    return rule && { words: question.words[rule[1]], right: rule[2] === 1 };
  }

  // Half a unit of the last decimal; 0 for one digit and for a calculation.
  function rounding(text, label) {
    const [, whole, decimals] = /^-?(\d*)[.,](\d+)$/.exec(ascii(text, label)) ?? [];
    return decimals && Number(whole + decimals) > 9 ? 0.5 / 10 ** decimals.length : 0;
  }

  // Whether the solution, in the first rule, rounds to these numbers.
  function isRounded(question, values, slacks) {
    const [box, , right] = question.rules[0];
    return right === 1 && box.every((range, i) => within(values[i], range && [
      range[0] === null ? null : range[0] - slacks[i], range[1] === null ? null : range[1] + slacks[i]]));
  }

  // The remark on the fields, and which cannot be read.
  function remark(question, texts) {
    const empty = texts.flatMap((text, i) => (text ? [] : [i]));
    if (empty.length) return { words: texts.length > 1 ? "Fill in every field." : "There is no answer yet.", bad: empty };
    if (!["number", "whole"].includes(question.kind)) return judged(question, texts.map(word)) ?? { words: AGAIN };
    const isWhole = question.kind === "whole";
    // 50 % may be 0.5 or, where percents are asked for, 50.
    const ways = [[false, 0.01], [true, 0.01], [false, 1], [true, 1]].filter(([comma]) => !(isWhole && comma));
    const readings = ways.map(([comma, percent]) => texts.map((text, i) => {
      const typed = isWhole ? text.replace(/(?<![\d.,])\d{1,3}(\.\d{3})+(?![\d.,])/g, (all) => all.replaceAll(".", "")) : text;
      return calculated(typed, comma, percent, question.labels[i]);
    }));
    const isBad = (value) => Number.isNaN(value) || (isWhole && !Number.isInteger(value));
    const good = readings.filter((values) => !values.some(isBad));
    if (!good.length) {
      const bad = readings.at(-1).flatMap((value, i) => (isBad(value) ? [i] : []));
      return { words: `“${texts[bad[0]]}” is not read as ${isWhole ? "a whole number" : "a number"}.`, bad };
    }
    const found = good.map((values) => judged(question, values));
    const said = found.find((one) => one?.right) ?? found[0];
    if (said?.right) return said;
    const slacks = texts.map((text, i) => (isWhole ? 0 : rounding(text, question.labels[i])));
    if (good.some((values) => isRounded(question, values, slacks))) return { words: ROUNDED };
    const isSlip = (words) => good.some((values) => judged(question, SLIPS[words](values))?.right);
    return said ?? { words: Object.keys(SLIPS).find(isSlip) ?? AGAIN };
  }

  // The forms of the page

  const forms = [...document.querySelectorAll("form.answer")];
  const labels = forms.filter((form) => !form.matches(".ask")).map((form) => form.dataset.question);

  function count() {
    const link = Object.assign(document.createElement("a"), { href: "index.html#answers", textContent: "All chapters" });
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
    question.labels = inputs.map((one) => one.labels[0].textContent);
    const isChoice = inputs[0].type !== "text";
    const chosenNow = () => inputs.filter((one) => one.checked).map((one) => one.value);
    const read = () => (isChoice ? [chosenNow().join(" ")] : inputs.map((one) => one.value.trim()));

    function show(found) {
      const place = form.querySelector(".answer-remark");
      place.textContent = found.words;
      place.classList.toggle("right", found.right === true);
      if (isChoice) return;
      inputs.forEach((one, i) => one.setAttribute("aria-invalid", found.bad?.includes(i) ?? false));
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

  // All chapters, on the first page

  const all = document.querySelector("details.answers");
  if (all) {
    const lines = [...all.querySelectorAll("li")].map((line) => [line, line.dataset.questions.split(" ")]);
    const status = all.querySelector("[role=status]");
    const update = () => {
      all.querySelector("summary span").textContent = counted(lines.flatMap(([, own]) => own));
      for (const [line, own] of lines) line.querySelector("span").textContent = counted(own);
    };
    all.querySelector(".answers-export").addEventListener("click", () => {
      const content = { book: "The Executable Transformer", saved: new Date().toISOString(), answers };
      const href = URL.createObjectURL(new Blob([JSON.stringify(content, null, 1)], { type: "application/json" }));
      const download = "transformer-answers.json";
      Object.assign(document.createElement("a"), { href, download }).click();
      setTimeout(() => URL.revokeObjectURL(href), 1000);
      status.textContent = `Saved as ${download}.`;
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
