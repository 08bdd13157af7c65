"use strict";
(() => {
  const make = (tag, attributes, text) => {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text) e.textContent = text;
    return e;
  };

  const scales = { n: 1e-9, "µ": 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
  const printed = /^[<>]?(-?\d+(?:\.\d+)?)([kMGT]?)(?: ± \d+(?:\.\d+)?)?(?: \[[^\]]*\])?(?: ?(?:([nµm]?)s|([KMGT]i)?B(?:\/s)?|IOPS|%|×))?(?: \[[^\]]*\])?(?: ± [\d.]+ %)?$/;
  // key returns the sort key of a cell: its number in base units (1.3 GiB/s is more than 54 MiB/s), otherwise its text.
  const key = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return "";
    const s = cell.textContent.replace(/\s+/g, " ").replace(/\u2060/g, "").trim();
    if (s === "" || s.startsWith("–") || s.startsWith("n/a")) return "";
    if (!Number.isNaN(Number(s))) return Number(s);
    const m = printed.exec(s);
    return m ? Number(m[1]) * scales[m[2]] * scales[m[3] ?? ""] * scales[m[4] ?? ""] : s.toLowerCase();
  };
  // Cells without a value are last in both directions.
  const compare = (a, b, down) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const d = typeof a === "number" && typeof b === "number" ? a - b
      : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b, "en", { numeric: true });
    return down ? -d : d;
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    const rows = () => [...body.rows];
    heads.forEach((head, column) => {
      const button = make("button", { type: "button" }, head.textContent);
      if (!head.textContent) return;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const h of heads) h.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sorted = rows().map((r, i) => ({ r, i, k: key(r, column) })).sort((a, b) => compare(a.k, b.k, down) || a.i - b.i);
        body.append(...sorted.map(x => x.r));
      });
    });
    const lines = rows().map(row => ({ row, text: row.textContent.toLowerCase() }));
    if (lines.length < 8) continue;
    const bar = make("div", { class: "filter" }), label = make("label", {}, "Filter");
    const input = make("input", { type: "search", placeholder: "words, -without" }), count = make("span", { role: "status" });
    label.append(input);
    bar.append(label, count);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(w => w && w !== "-");
      let shown = 0;
      for (const l of lines) {
        const fits = words.every(w => w[0] === "-" ? !l.text.includes(w.slice(1)) : l.text.includes(w));
        l.row.hidden = !fits;
        shown += fits;
      }
      count.textContent = words.length ? shown + " of " + lines.length + " rows" : "";
    });
    table.closest(".scroll").before(bar);
  }

  // A link to a note opens the folds that contain the note.
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    for (let d = target && target.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();

  // A saved chart has no style sheet, so its elements get their computed style as attributes.
  const painted = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "paint-order"], lettered = ["font-family", "font-size", "font-weight"];
  const drawn = (tag, attributes, text) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text) e.textContent = text;
    return e;
  };
  const alone = svg => {
    const copy = svg.cloneNode(true), { width, height } = svg.viewBox.baseVal;
    const from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((e, i) => {
      const style = getComputedStyle(e);
      if (style.display === "none") return to[i].remove();
      if (e.tagName !== "title") for (const p of e.tagName === "text" ? [...painted, ...lettered] : painted) to[i].setAttribute(p, style.getPropertyValue(p));
      to[i].removeAttribute("class");
    });
    for (const [k, v] of Object.entries({ x: 12, y: 36, width, height })) copy.setAttribute(k, v);
    const figure = getComputedStyle(svg.closest("figure")), whole = drawn("svg", { width: width + 24, height: height + 48 });
    const head = drawn("text", { x: 12, y: 22, fill: figure.color, "font-family": figure.fontFamily, "font-size": "12px", "font-weight": "600" }, document.body.dataset.about);
    whole.append(drawn("rect", { width: "100%", height: "100%", fill: figure.backgroundColor }), head, copy);
    return { text: new XMLSerializer().serializeToString(whole), width: width + 24, height: height + 48 };
  };
  const hand = (blob, name) => {
    const url = URL.createObjectURL(blob), a = make("a", { href: url, download: name });
    a.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };
  const picture = drawing => new Promise((done, failed) => {
    const image = new Image();
    image.onerror = () => failed(new Error("cannot read the chart"));
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = drawing.width * 2;
      canvas.height = drawing.height * 2;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(b => b ? done(b) : failed(new Error("cannot make the picture")), "image/png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(drawing.text);
  });

  const names = new Map();
  for (const figure of document.querySelectorAll("[data-save]")) {
    const shown = () => [...figure.querySelectorAll("svg")].find(s => s.getClientRects().length) ?? figure.querySelector("svg");
    const n = (names.get(figure.dataset.save) ?? 0) + 1;
    names.set(figure.dataset.save, n);
    const name = "iotax-" + figure.dataset.save + (n > 1 ? "-" + n : "");
    const menu = make("details", { class: "save" });
    menu.append(make("summary", { "aria-label": "Save " + shown().getAttribute("aria-label").split(". ")[0] }, "Save"));
    for (const kind of ["SVG", "PNG"]) {
      const button = make("button", { type: "button" }, kind);
      button.addEventListener("click", async () => {
        const drawing = alone(shown());
        hand(kind === "SVG" ? new Blob([drawing.text], { type: "image/svg+xml" }) : await picture(drawing), name + "." + kind.toLowerCase());
      });
      menu.append(button);
    }
    figure.append(menu);
  }
})();
