// The chapters of the site in one page, which make_pdf.py prints.
({
  // A drawn chapter without its solutions, as HTML that can stand beside the others: its ids begin with the chapter's
  // name, and its links lead to other chapters or to the public site.
  take([chapter, chapters, base, home]) {
    const article = document.querySelector('article'), folder = new URL('.', location.href).href;
    article.querySelectorAll('.solution, script').forEach(one => one.remove());
    article.querySelectorAll('.toggle-hidden').forEach(box => box.classList.remove('toggle-hidden'));
    article.querySelectorAll('details:is(.toggle-details, .evidence, .code)').forEach(box => { box.open = true; });
    const within = id => chapter + '--' + id;
    article.querySelectorAll('*').forEach(one => {
      for (const {name, value} of [...one.attributes]) {
        if (name === 'id') one.id = within(value);
        else if (/^(for|aria-(labelledby|describedby|controls))$/.test(name)) {
          one.setAttribute(name, value.split(/\s+/).map(within).join(' '));
        } else if (value.includes('url(')) {
          one.setAttribute(name, value.replace(/url\((['"]?)[^#)]*#/g, `url($1#${chapter}--`));
        } else if (name === 'href' && one.localName !== 'a' && value.startsWith('#')) {
          one.setAttribute(name, '#' + within(value.slice(1)));
        }
      }
    });
    article.querySelectorAll('a[href]').forEach(link => {
      const {href, hash} = new URL(link.getAttribute('href'), location.href);
      const name = href.startsWith(folder) ? href.slice(folder.length).split('.html')[0] : '';
      if (chapters.includes(name)) {
        link.setAttribute('href', '#' + (hash ? `${name}--${decodeURIComponent(hash.slice(1))}` : name));
      } else if (href.startsWith(base)) link.href = home + href.slice(base.length);
    });
    article.querySelectorAll('img').forEach(image => { image.loading = 'eager'; });
    article.id = chapter;
    article.classList.add(chapter);
    const title = [...article.querySelector('h1').childNodes].filter(node => !node.matches?.('.headerlink'));
    return {title: title.map(node => node.textContent).join('').trim(), html: article.outerHTML};
  },

  // All chapters in the place of this page's own; a formula that is too wide becomes smaller; a link without its place
  // is none.
  async put([chapters, style]) {
    const sheet = document.createElement('style');
    sheet.textContent = style;
    document.head.append(sheet);
    const place = document.querySelector('article');
    place.insertAdjacentHTML('beforebegin', chapters.join(''));
    place.remove();
    document.querySelectorAll('article div.math').forEach(formula => {
      const room = formula.clientWidth / formula.scrollWidth;
      if (room < 1) formula.style.fontSize = `${Math.floor(100 * room)}%`;
    });
    document.querySelectorAll('article a[href^="#"]').forEach(link => {
      if (!document.getElementById(link.getAttribute('href').slice(1))) link.removeAttribute('href');
    });
    await Promise.all([document.fonts.ready, ...[...document.images].map(image => image.decode())]);
  },
})
