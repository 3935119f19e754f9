"use strict";
// The list of runs: says when another run has begun.
(() => {
  const INTERVAL_MS = 5000;
  const notice = document.getElementById("newest");
  if (!notice) return;
  async function look() {
    try {
      if (!document.hidden) {
        const { run } = await (await fetch("/newest")).json();
        if (run && run !== notice.dataset.run) {
          if (notice.dataset.reload) { location.reload(); return; }
          notice.querySelector("a").href = "/runs/" + encodeURIComponent(run);
          notice.hidden = false;
        }
      }
    } catch { /* The server has ended; the list is still right. */ }
    setTimeout(look, INTERVAL_MS);
  }
  setTimeout(look, INTERVAL_MS);
})();

// The page of a run that goes on: asks where it stands, and draws what is new.
(() => {
  const live = document.getElementById("live");
  if (!live) return;
  const INTERVAL_MS = 2000; // The browser draws on the machine that is measured.
  const by = (id) => document.getElementById(id);
  const place = live.querySelector(".live-plot");
  const grouped = (number) => number.toLocaleString("en").replaceAll(",", "\u202f");
  let known = -1, shown = "", chosen = null;

  const cell = (text, number) => {
    const found = document.createElement("td");
    found.textContent = text;
    if (number) found.className = "number";
    return found;
  };

  function row(each) {
    const found = document.createElement("tr"), button = document.createElement("button"), first = document.createElement("td");
    button.type = "button";
    button.textContent = each.name;
    button.disabled = each.samples === 0;
    button.setAttribute("aria-pressed", String(each.name === shown));
    button.addEventListener("click", () => { chosen = each.name; known = -1; ask(); });
    first.append(button);
    found.append(first, cell(each.points + " of " + each.of_points, true), cell(grouped(each.samples) + (each.total === null ? "" : " of " + grouped(each.total)), true));
    if (each.is_current) found.className = "strong";
    return found;
  }

  async function show(state) {
    by("words").textContent = state.words;
    const bar = by("progress");
    if (state.share === null) bar.removeAttribute("value"); else bar.value = state.share;
    const noun = (state.total === null ? state.samples : state.total) === 1 ? " sample" : " samples";
    by("counted").textContent = grouped(state.samples) + (state.total === null ? "" : " of " + grouped(state.total)) + noun;
    shown = state.shown || "";
    by("experiments").replaceChildren(...state.experiments.map(row));
    if (state.figure) {
      by("figure-title").textContent = state.title;
      by("figure-note").hidden = false;
      place.querySelector("script").textContent = JSON.stringify(state.figure);
      await window.oscope.draw(place);
    }
    known = state.version;
    live.dataset.version = state.version;
  }

  async function ask() {
    const query = new URLSearchParams({ known });
    if (chosen) query.set("show", chosen);
    const answer = await fetch(live.dataset.url + "?" + query);
    if (!answer.ok) throw new Error(String(answer.status));
    const state = await answer.json();
    if (state.status !== "unfinished") { location.reload(); return; }
    await show(state);
  }

  async function follow() {
    try {
      // A page that nobody sees asks nothing.
      if (!document.hidden) await ask();
    } catch {
      by("words").textContent = "The server does not answer: has oscope view ended?";
    }
    setTimeout(follow, INTERVAL_MS);
  }

  document.getElementById("theme").addEventListener("click", () => { if (place.querySelector("script").textContent) window.oscope.draw(place); });
  show(JSON.parse(by("state").textContent)).then(() => setTimeout(follow, INTERVAL_MS));
})();
