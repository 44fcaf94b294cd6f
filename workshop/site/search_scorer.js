/* How results of the search are ordered and shown; the build puts this into Sphinx's search (html_search_scorer).
   First comes the chapter whose subject the word is, then its line in the glossary, then the short way; then other
   chapters, and the API last, except for a name such as beam_search. Each page comes once, with a passage that has the
   words, from a file of the page (book_search.py) that is loaded when the result comes into view. A result leads to the
   one section whose title has the words, or else to what is shown. */
{
  const WORD = /[\p{Letter}\p{Number}_]+/gu;
  const GLOSSARY = "book/glossary", SHORT_WAY = "book/twenty_minutes";
  const LENGTH = 240; // letters of a passage that are shown
  const SUBJECT = 30; // the score of a title, or of an entry of the index, that is half of the words
  const stemmer = new Stemmer();
  const stem = (word) => stemmer.stemWord(word.toLowerCase());
  const query = () => new URLSearchParams(location.search).get("q") ?? "";
  const isName = () => /[_.()]/.test(query());
  const isApi = (docname) => /\/api(_tools)?$/.test(docname);
  const bare = (title) => title.replace(/<[^>]*>/g, "").replace(/^\d+\. /, "");

  Documentation.addTranslations({
    locale: "en",
    plural_expr: "n == 1 ? 0 : 1",
    messages: {
      "Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories.":
        "Nothing was found. Try one word, another spelling, or look into the glossary.",
    },
  });

  Scorer.score = (result) => {
    const [docname, title, anchor, , score] = result;
    if (isApi(docname)) return isName() ? score + 100 : score - 100;
    const { docnames, titles } = Search._index;
    const page = titles[docnames.indexOf(docname)];
    if (title.endsWith(` > ${bare(page)}`)) result[1] = page;
    const [inTitle, wanted] = [bare(page), query()].map((text) => splitQuery(text).map(stem));
    if (anchor || !wanted.every((word) => inTitle.includes(word))) return score;
    return score + (inTitle.length === wanted.length ? 300 : 200);
  };

  /* The best result of each page, and every object of the API; the last is shown first. */
  const performed = Search._performSearch;
  Search._performSearch = (...given) => {
    const seen = new Set();
    const best = performed(...given).reverse();
    const all = best.filter(([docname, , , descr]) => descr !== null || !(seen.has(docname) || !seen.add(docname)));
    const chapters = all.filter(([docname]) => !isApi(docname) && docname !== GLOSSARY);
    const first = [
      chapters[0]?.[4] >= SUBJECT ? chapters[0] : null,
      all.find(([docname, , anchor]) => docname === GLOSSARY && anchor),
      chapters.find(([docname]) => docname === SHORT_WAY),
    ].filter(Boolean);
    chapters.forEach(leadToSection);
    return [...new Set(isName() ? all : [...first, ...all])].reverse();
  };

  /* A word of the index leads to the section that is named after it, where a page has one. */
  const leadToSection = (result) => {
    if (!result[2]) return;
    const { alltitles, docnames } = Search._index;
    const wanted = splitQuery(query()).map(stem);
    const named = Object.entries(alltitles)
      .filter(([title]) => wanted.every((word) => splitQuery(title).map(stem).includes(word)))
      .flatMap(([, places]) => places.filter(([page, id]) => id && docnames[page] === result[0]));
    if (named.length === 1) result[2] = `#${named[0][1]}`;
  };

  /* How many of the words a passage has: whole ones count before parts of one. */
  const hits = (text, wanted) => {
    const stems = new Set([...text.matchAll(WORD)].map(([word]) => stem(word)));
    const parts = wanted.filter((one) => [...stems].some((other) => other.includes(one)));
    return wanted.filter((one) => stems.has(one)).length + parts.length / 100;
  };

  const isWanted = (word, wanted, whole) =>
    wanted.some((one) => (whole ? stem(word) === one : stem(word).includes(one)));

  /* The passage around the first of the words, with the words marked. */
  const shown = (text, wanted) => {
    const whole = hits(text, wanted) >= 1;
    const words = [...text.matchAll(WORD)];
    const at = words.find(([word]) => isWanted(word, wanted, whole))?.index ?? 0;
    const from = text.length <= LENGTH || at < LENGTH / 2 ? 0 : text.indexOf(" ", at - LENGTH / 2) + 1;
    const end = from + LENGTH < text.length ? text.lastIndexOf(" ", from + LENGTH) : text.length;
    const nodes = [from ? "… " : ""];
    let last = from;
    for (const { 0: word, index } of words) {
      if (index < from || index + word.length > end || !isWanted(word, wanted, whole)) continue;
      const mark = document.createElement("span");
      mark.className = "highlighted";
      mark.textContent = word;
      nodes.push(text.slice(last, index), mark);
      last = index + word.length;
    }
    return [...nodes, text.slice(last, end), end < text.length ? " …" : ""];
  };

  const results = new Map();
  Search.show = (docname, passages) => {
    const { link, passage, anchor } = results.get(docname);
    const wanted = [...Search._parseQuery(query())[1]];
    const score = ([place, text]) => hits(text, wanted) + (place === anchor ? 0.5 : 0);
    const scores = passages.map(score);
    const [place, best] = passages[scores.indexOf(Math.max(...scores))] ?? ["", ""];
    passage.replaceChildren(...shown(best, wanted));
    if (!anchor && hits(link.textContent, wanted) < wanted.length) link.hash = place;
  };

  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      watch.unobserve(target);
      const script = document.createElement("script");
      script.src = `${document.documentElement.dataset.content_root}_static/search/${target.dataset.page}.js`;
      document.body.append(script);
    }
  });

  const asked = Search.query;
  Search.query = (text) => {
    new MutationObserver((changes) => {
      for (const item of changes.flatMap(({ addedNodes }) => [...addedNodes])) {
        const link = item.querySelector("a");
        const [page, anchor] = link.getAttribute("href").split("#");
        if (item.querySelector(":scope > span")) continue; // an object of the API says what it is
        const passage = item.appendChild(document.createElement("p"));
        passage.className = "context";
        item.dataset.page = page.replace(/\.html$/, "");
        results.set(item.dataset.page, { link, passage, anchor });
        watch.observe(item);
      }
    }).observe(Search.output, { childList: true });
    asked(text);
  };
}
