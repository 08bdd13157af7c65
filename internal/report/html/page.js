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

  // A field above what it filters. The lines have the text that is looked for, and show puts one in view or out of it.
  const field = (what, lines, show) => {
    const bar = make("div", { class: "filter" });
    const input = make("input", { type: "search", "aria-label": "Show only " + what + " with these words", placeholder: "words, -without" });
    const count = make("span", { role: "status" });
    bar.append(input, count);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(w => w && w !== "-");
      let shown = 0;
      for (const l of lines) {
        const fits = words.every(w => w[0] === "-" ? !l.text.includes(w.slice(1)) : l.text.includes(w));
        show(l, fits);
        shown += fits;
      }
      count.textContent = words.length ? shown + " of " + lines.length + " " + what : "";
    });
    return bar;
  };

  for (const table of document.querySelectorAll("table.filterable")) {
    const lines = [...table.tBodies[0].rows].map(row => ({ row, text: row.textContent.toLowerCase() }));
    if (lines.length < 2) continue;
    (table.closest(".scroll") ?? table).before(field(table.dataset.what, lines, (l, fits) => { l.row.hidden = !fits; }));
  }

  // The tables of the workloads have one field together: a row is looked for by its workload's name too.
  const works = [...document.querySelectorAll("section.work")];
  const cells = works.flatMap(work => [...work.querySelectorAll(".values")].flatMap(box => [...box.querySelectorAll("tbody tr:not(.axis)")].map(row =>
    ({ work, box, row, text: (work.querySelector("h2").textContent + " " + box.querySelector("caption").textContent + " " + row.textContent).toLowerCase() }))));
  if (cells.length > 1) {
    const bar = field("cells", cells, (l, fits) => {
      l.row.hidden = !fits;
      for (const part of [l.box, l.work]) part.hidden = !part.querySelector(".cells tbody tr:not(.axis):not([hidden])");
    });
    bar.classList.add("works");
    works[0].before(bar);
  }

  // A drawing on its own knows none of the page's style: each element gets its own.
  const painted = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "paint-order"];
  const lettered = ["font-family", "font-size", "font-weight"];
  const drawn = (tag, attributes, text) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text) e.textContent = text;
    return e;
  };
  const dressed = svg => {
    const copy = svg.cloneNode(true);
    const from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((e, i) => {
      if (["title", "desc"].includes(e.tagName)) return;
      const style = getComputedStyle(e);
      for (const p of e.tagName === "text" ? [...painted, ...lettered] : painted) to[i].setAttribute(p, style.getPropertyValue(p));
      to[i].removeAttribute("class");
    });
    return copy;
  };
  // A drawing whose marks lie at per cents of its width must keep that width.
  const placed = (svg, x, y, width, height) => {
    const copy = dressed(svg);
    for (const [k, v] of Object.entries({ x, y, width, height, overflow: "visible" })) copy.setAttribute(k, v);
    return copy;
  };
  const ground = e => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)" && colour !== "transparent") return colour;
    }
    return "white";
  };
  const whole = (parts, width, height, colour) => {
    const svg = drawn("svg", { width, height, viewBox: "-12 -12 " + (width + 24) + " " + (height + 24) });
    svg.append(drawn("rect", { x: -12, y: -12, width: width + 24, height: height + 24, fill: colour }), ...parts);
    return { text: new XMLSerializer().serializeToString(svg), width, height };
  };
  const alone = svg => {
    const box = svg.getAttribute("viewBox") ? svg.viewBox.baseVal : svg.getBoundingClientRect();
    return whole([placed(svg, 0, 0, box.width, box.height)], box.width, box.height, ground(svg.parentElement));
  };
  const heading = box => [box.closest("section").querySelector("h2"), ...box.querySelector("caption").childNodes].map(e => e.textContent).join(", ");
  // The trials of a table: a strip a row, with its name before it and its figures behind it.
  const strips = box => {
    const rows = [...box.querySelectorAll("tbody tr")].filter(r => !r.hidden), plot = 480, columns = [0, 150, 300], parts = [];
    const name = r => r.cells[0].textContent;
    const left = Math.min(340, 20 + 7.5 * Math.max(...rows.map(r => name(r).length)));
    const letter = (e, x, y, text) => {
      const style = getComputedStyle(e);
      parts.push(drawn("text", { x, y, fill: style.color, "font-family": style.fontFamily, "font-size": "13px", "font-weight": style.fontWeight }, text));
    };
    letter(box.querySelector("caption"), 0, 13, heading(box));
    let y = 26;
    for (const r of rows) {
      const strip = r.querySelector("svg.strip"), tall = r.classList.contains("axis") ? 20 : 40;
      if (strip) parts.push(placed(strip, left, y, plot, tall));
      if (tall === 40) {
        letter(r.cells[0], 0, y + 24, name(r));
        columns.forEach((at, i) => {
          [...r.cells[2 + i].children].filter(e => !e.classList.contains("refs")).forEach((e, k) => letter(e, left + plot + 24 + at, y + 17 + 16 * k, e.textContent));
        });
      }
      y += tall + 6;
    }
    return whole(parts, left + plot + 24 + 430, y, ground(box));
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
  for (const figure of document.querySelectorAll("[data-save]")) {
    const shown = () => [...figure.querySelectorAll("svg[role=img]")].find(s => s.getClientRects().length) ?? figure.querySelector("svg[role=img]");
    if (!shown()) continue; // a table without a value has no strip
    const n = (names.get(figure.dataset.save) ?? 0) + 1;
    names.set(figure.dataset.save, n);
    const name = "iotax-" + figure.dataset.save + (n > 1 ? "-" + n : "");
    const table = figure.querySelector("table.cells");
    const title = table ? "every trial, " + heading(figure)
      : (shown().getAttribute("aria-label") ?? figure.dataset.save).split(". ")[0];
    const bar = make("div", { class: "save" });
    for (const kind of ["SVG", "PNG"]) {
      const button = make("button", { type: "button", "aria-label": "Save as " + kind + ": " + title }, kind);
      button.addEventListener("click", async () => {
        const drawing = table ? strips(figure) : alone(shown());
        hand(kind === "SVG" ? new Blob([drawing.text], { type: "image/svg+xml" }) : await picture(drawing, 2), name + "." + kind.toLowerCase());
      });
      bar.append(button);
    }
    figure.append(bar);
  }
})();
