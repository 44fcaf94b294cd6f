/* The versions of the book, where the site holds more than one: a list under the book's name, from versions.json beside
   this version's pages. From a file there is no list, for a browser gives a page no other files there. */
"use strict";

{
  const root = new URL("..", document.currentScript.src);
  const place = document.querySelector(".navbar-brand")?.parentElement;

  const offer = ({ here, versions }) => {
    if (!place || versions.length < 2) return;
    const page = location.pathname.slice(root.pathname.length);
    const box = document.createElement("details");
    box.className = "book-versions";
    box.append(document.createElement("summary"), document.createElement("ul"));
    box.firstChild.textContent = `Version: ${here}`;
    for (const { name, path } of versions) {
      const link = document.createElement("a");
      link.textContent = name;
      link.href = new URL(path + page, root);
      if (name === here) link.setAttribute("aria-current", "true");
      box.lastChild.append(document.createElement("li"));
      box.lastChild.lastChild.append(link);
    }
    place.after(box);
  };

  if (location.protocol !== "file:") {
    fetch(new URL("versions.json", root))
      .then((answer) => answer.json())
      .then(offer)
      .catch(() => {}); // without the list the page is whole
  }
}
