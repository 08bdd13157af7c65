"use strict";
(() => {
  const make = (tag, attributes, text) => {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text) e.textContent = text;
    return e;
  };

  const scales = { n: 1e-9, "µ": 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
  const printed = /^[<>]?(-?\d+(?:\.\d+)?)([kMGT]?)(?: ± \d+(?:\.\d+)?)?(?: \[[^\]]*\])?(?: ?(?:([nµm]?)s|([KMGT]i)?B(?:\/s)?|IOPS|%|×))?(?: \[[^\]]*\])?$/;
  // What a cell is sorted by: a number where it says one, with its unit ("1.3 GiB/s" is more than "54 MiB/s"), else its words.
  const key = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return "";
    const s = (cell.dataset.v ?? cell.textContent).replace(/\s+/g, " ").trim();
    if (s === "" || s.startsWith("–") || s.startsWith("n/a")) return "";
    if (!Number.isNaN(Number(s))) return Number(s);
    const m = printed.exec(s);
    return m ? Number(m[1]) * scales[m[2]] * scales[m[3] ?? ""] * scales[m[4] ?? ""] : s.toLowerCase();
  };
  // What is missing is last, whichever way the rest is sorted.
  const compare = (a, b, down) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const d = typeof a === "number" && typeof b === "number" ? a - b
      : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b, "en", { numeric: true });
    return down ? -d : d;
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (head.dataset.sort === "no") return;
      const button = make("button", { type: "button" }, head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const h of heads) h.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...body.rows], fixed = rows.filter(r => r.classList.contains("axis"));
        const free = rows.filter(r => !r.classList.contains("axis")).map((r, i) => ({ r, i, k: key(r, column) }));
        free.sort((a, b) => compare(a.k, b.k, down) || a.i - b.i);
        body.append(...free.map(x => x.r), ...fixed);
      });
    });
  }

  for (const table of document.querySelectorAll("table.filterable")) {
    const rows = [...table.tBodies[0].rows], what = table.dataset.what;
    if (rows.length < 2) continue;
    const bar = make("div", { class: "filter" });
    const input = make("input", { type: "search", "aria-label": "Show only " + what + " with these words", placeholder: "words, -without" });
    const count = make("span", { role: "status" });
    bar.append(input, count);
    (table.closest(".scroll") ?? table).before(bar);
    const texts = rows.map(r => r.textContent.toLowerCase());
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(w => w && w !== "-");
      let shown = 0;
      rows.forEach((r, i) => {
        r.hidden = !words.every(w => w[0] === "-" ? !texts[i].includes(w.slice(1)) : texts[i].includes(w));
        shown += !r.hidden;
      });
      count.textContent = words.length ? shown + " of " + rows.length + " " + what : "";
    };
    input.addEventListener("input", apply);
  }

  // A drawing on its own knows none of the page's style: each element gets its own.
  const painted = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "paint-order"];
  const lettered = ["font-family", "font-size", "font-weight"];
  const alone = svg => {
    const copy = svg.cloneNode(true), box = svg.viewBox.baseVal;
    const width = box.width, height = box.height;
    const from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((e, i) => {
      if (["title", "desc"].includes(e.tagName)) return;
      const style = getComputedStyle(e);
      for (const p of e.tagName === "text" ? [...painted, ...lettered] : painted) to[i].setAttribute(p, style.getPropertyValue(p));
      to[i].removeAttribute("class");
    });
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.setAttribute("viewBox", "-12 -12 " + (width + 24) + " " + (height + 24));
    const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [k, v] of Object.entries({ x: -12, y: -12, width: width + 24, height: height + 24 })) ground.setAttribute(k, v);
    ground.setAttribute("fill", getComputedStyle(svg.closest("figure")).backgroundColor);
    copy.prepend(ground);
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  };
  const hand = (blob, name) => {
    const url = URL.createObjectURL(blob), a = make("a", { href: url, download: name });
    a.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };
  const picture = (drawing, scale) => new Promise((done, failed) => {
    const image = new Image();
    image.onerror = () => failed(new Error("the drawing could not be read"));
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = (drawing.width + 24) * scale;
      canvas.height = (drawing.height + 24) * scale;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(b => b ? done(b) : failed(new Error("the picture could not be made")), "image/png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(drawing.text);
  });

  const names = new Map();
  for (const figure of document.querySelectorAll("figure[data-save]")) {
    const n = (names.get(figure.dataset.save) ?? 0) + 1;
    names.set(figure.dataset.save, n);
    const name = "iotax-" + figure.dataset.save + (n > 1 ? "-" + n : "");
    const shown = () => [...figure.querySelectorAll("svg[role=img]")].find(s => s.getClientRects().length) ?? figure.querySelector("svg[role=img]");
    const bar = make("div", { class: "save" });
    const title = (figure.querySelector("svg[role=img]").getAttribute("aria-label") ?? figure.dataset.save).split(". ")[0];
    for (const kind of ["SVG", "PNG"]) {
      const button = make("button", { type: "button", "aria-label": "Save as " + kind + ": " + title }, kind);
      button.addEventListener("click", async () => {
        const drawing = alone(shown());
        hand(kind === "SVG" ? new Blob([drawing.text], { type: "image/svg+xml" }) : await picture(drawing, 2), name + "." + kind.toLowerCase());
      });
      bar.append(button);
    }
    figure.append(bar);
  }
})();
