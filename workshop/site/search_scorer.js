/* How results of the search are ordered and shown; the build puts this into Sphinx's search (html_search_scorer).
   Chapters come before the API, except for a name such as beam_search; a page whose title has the words comes first,
   and each page once, with the text of the page beside it and nothing of its bars. */
{
  const stems = (text) => {
    const stemmer = new Stemmer();
    return splitQuery(text.toLowerCase()).map((word) => stemmer.stemWord(word));
  };
  const query = () => new URLSearchParams(location.search).get("q") ?? "";
  const isApi = (docname) => /\/api(_tools)?$/.test(docname);
  const bare = (title) => title.replace(/^\d+\. /, "");

  Scorer.score = (result) => {
    const [docname, title, anchor, , score] = result;
    if (isApi(docname)) return /[_.()]/.test(query()) ? score + 100 : score - 100;
    const { docnames, titles } = Search._index;
    const page = titles[docnames.indexOf(docname)];
    if (title.endsWith(` > ${bare(page)}`)) result[1] = page;
    const inTitle = stems(page);
    return score + (!anchor && stems(query()).every((word) => inTitle.includes(word)) ? 200 : 0);
  };

  /* The best result of each page, and every object of the API; the last is shown first. */
  const performed = Search._performSearch;
  Search._performSearch = (...given) => {
    const seen = new Set();
    const first = performed(...given).reverse();
    return first.filter(([docname, , , descr]) => descr !== null || !(seen.has(docname) || !seen.add(docname))).reverse();
  };

  Search.htmlToText = (text, anchor) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const article = page.querySelector("article") ?? page.body;
    const place = page.getElementById(anchor.slice(1))?.closest("section") ?? article;
    const gone = "script, style, pre, svg, form, h1, summary, .headerlink, .layers, .report";
    for (const one of place.querySelectorAll(gone)) one.remove();
    return place.textContent.replace(/\s+/g, " ").trim();
  };
}
