"use strict";
// All pages work without this script. It only makes them easier to use.

// Show the number of ticked runs. Disable the button unless they can be compared.
for (const form of document.querySelectorAll("form[data-compare]")) {
  const count = form.querySelector("[data-count]"), button = form.querySelector("[data-tray] button");
  const most = 6;
  const show = () => {
    const n = form.querySelectorAll("input[name=run]:checked").length;
    button.disabled = n < 2 || n > most;
    count.textContent = n > most ? n + " runs are ticked; " + most + " are the most" : n === 0 ? "Tick two or more runs" : n === 1 ? "1 run; tick another" : n + " runs";
  };
  form.addEventListener("change", show);
  window.addEventListener("pageshow", show); // "back" in the browser restores the ticks
  show();
}

for (const field of document.querySelectorAll("[data-submit]")) field.addEventListener("change", () => field.form.requestSubmit());

document.addEventListener("keydown", e => {
  const q = document.getElementById("q");
  if (e.key === "/" && q && !e.ctrlKey && !e.metaKey && !e.altKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) {
    e.preventDefault();
    q.select();
    q.focus();
  }
});

// In a live view, the server sends new page content whenever the state of the run changes.
const live = document.querySelector("main[data-events]");
if (live) {
  const middle = live.querySelector("[data-live]");
  let since = performance.now();
  const words = s => s < 60 ? s + " s" : s < 3600 ? Math.floor(s / 60) + " min " + s % 60 + " s" : Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  const clock = () => {
    const more = Math.floor((performance.now() - since) / 1000);
    for (const e of middle.querySelectorAll("[data-seconds]")) e.textContent = words(+e.dataset.seconds + more);
  };
  clock();
  setInterval(clock, 1000);
  const lost = gone => { for (const e of middle.querySelectorAll("[data-lost]")) e.hidden = !gone; };
  const source = new EventSource(live.dataset.events);
  source.addEventListener("open", () => lost(false));
  source.addEventListener("error", () => lost(true));
  source.addEventListener("run", e => {
    const at = [...middle.querySelectorAll(".scroll")].map(s => s.scrollLeft);
    middle.innerHTML = e.data; // the server has escaped it
    middle.querySelectorAll(".scroll").forEach((s, i) => { s.scrollLeft = at[i] || 0; });
    since = performance.now();
    clock();
  });
  source.addEventListener("end", e => {
    source.close();
    location.replace(e.data === "removed" ? "/" : live.dataset.report);
  });
}
