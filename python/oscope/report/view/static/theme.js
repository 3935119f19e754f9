"use strict";
// Before the page is drawn: the theme chosen on another page.
(() => {
  const KEY = "oscope-theme";
  const kept = localStorage.getItem(KEY);
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  new MutationObserver(() => {
    const chosen = document.documentElement.dataset.theme;
    if (chosen) localStorage.setItem(KEY, chosen);
  }).observe(document.documentElement, { attributeFilter: ["data-theme"] });
})();
