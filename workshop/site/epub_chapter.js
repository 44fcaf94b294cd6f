// A drawn page of the site as the body of a chapter of the EPUB: plain XHTML, formulas as MathML, charts as pictures.
// make_epub.py evaluates this in the page; `marked` names the charts and drawings, of which it then takes pictures.
({
  marked(home) {
    for (const box of document.querySelectorAll('.live-translator, .live-training')) {
      const link = document.createElement('a');
      link.href = home + location.pathname.split('/').slice(-2).join('/');
      link.textContent = 'What runs here runs on the published page.';
      const line = document.createElement('p');
      line.append(link);
      box.replaceWith(line);
    }
    const gone = '.solution, details.hide, details.code > summary, .layers, [class^="live-"], button, .tb-icon, .report';
    document.querySelectorAll(gone).forEach(box => box.remove());
    document.querySelectorAll('details').forEach(box => { box.open = true; });
    document.querySelectorAll('.toggle-hidden').forEach(box => box.classList.remove('toggle-hidden'));
    const drawings = [...document.querySelectorAll('article .vega-chart, article svg')]
      .filter(one => one.matches('.vega-chart') || !one.closest('.vega-chart'));
    drawings.forEach((one, number) => {
      const picture = one.querySelector('svg.marks, canvas.marks') ?? one;
      picture.dataset.picture = number;
      one.dataset.drawn = number;
      one.dataset.width = Math.round(picture.getBoundingClientRect().width);
      one.dataset.alt = one.querySelector('[aria-label]')?.getAttribute('aria-label')
        ?? [...one.querySelectorAll('title, desc')].map(text => text.textContent.trim()).join('. ');
    });
    return drawings.length;
  },

  chapter({pages, home, pictures}) {
    const XHTML = 'http://www.w3.org/1999/xhtml';
    const KEPT = new Set(`a blockquote br caption cite code dd div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr li ol
      p pre section span strong sub sup table tbody td th thead tr ul`.split(/\s+/));
    const GONE = new Set(`button canvas fieldset form iframe input label noscript output script select style svg
      template textarea`.split(/\s+/));
    const ATTRIBUTES = ['class', 'colspan', 'rowspan', 'scope', 'start', 'lang'];
    const out = document.implementation.createDocument(XHTML, 'body', null);
    const ids = new Set(), images = [];
    const folder = new URL('.', location.href).href, site = new URL('..', folder).href;

    function make(name, parent, attributes = {}) {
      const element = out.createElementNS(XHTML, name);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      return parent.appendChild(element);
    }

    function math(node) {
      const copy = out.importNode(node, true);
      const source = node.closest('[data-tex]')?.dataset.tex;
      if (source) copy.setAttribute('alttext', source);
      return copy;
    }

    function address(href) {
      if (href.startsWith('#')) return href;
      const url = new URL(href, location.href);
      if (!url.href.startsWith(site)) return /^(https?|mailto):/.test(url.protocol) ? url.href : '';
      const name = url.pathname.split('/').pop().replace(/\.html$/, '');
      if (url.href.startsWith(folder) && pages.includes(name)) return `${name}.xhtml${url.hash}`;
      return home + url.href.slice(site.length);
    }

    function walk(node, parent) {
      for (const child of node.childNodes) {
        if (child.nodeType === 3) parent.append(out.createTextNode(child.textContent));
        if (child.nodeType !== 1) continue;
        if (child.localName === 'math') parent.append(math(child));
        else if (child.dataset.drawn !== undefined) {
          const {drawn, alt, width} = child.dataset;
          make('img', parent, {src: pictures[drawn], alt, width, class: 'drawn'});
        } else one(child, parent);
      }
    }

    function one(child, parent) {
      const name = child.localName;
      if (GONE.has(name) || child.matches('.headerlink')) return;
      if (name === 'img') {
        images.push(child.src);
        make('img', parent, {src: child.src, alt: child.alt});
        return;
      }
      const kept = {details: 'div', summary: 'p'}[name] ?? name;
      if (!KEPT.has(kept)) return walk(child, parent);
      const element = make(kept, parent);
      for (const key of ATTRIBUTES) if (child.getAttribute(key)) element.setAttribute(key, child.getAttribute(key));
      if (name !== kept) element.setAttribute('class', `${name} ${child.className}`.trim());
      if (child.id && !ids.has(child.id)) {
        ids.add(child.id);
        element.setAttribute('id', child.id);
      }
      const href = name === 'a' && child.hasAttribute('href') ? address(child.getAttribute('href')) : '';
      if (href) element.setAttribute('href', href);
      walk(child, element);
    }

    walk(document.querySelector('article'), out.documentElement);
    const text = [...out.documentElement.childNodes].map(node => new XMLSerializer().serializeToString(node)).join('');
    return {text, ids: [...ids], images: [...new Set(images)], title: out.querySelector('h1').textContent.trim()};
  },
})
