// What all figures of the page share: colours of the reader's scheme, drawing, and opening of folded sections.
"use strict";

const charts = (() => {
  const readJson = (id) => JSON.parse(document.getElementById(id).textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const drawn = new Map();

  // Figures name neutral colours by what they are for; they become those of the light or dark scheme here.
  function coloured(value) {
    if (Array.isArray(value)) return value.map(coloured);
    if (value && typeof value === "object") {
      // A shape's type may be "line", which is no colour.
      const kept = (key, member) => (key === "type" ? member : coloured(member));
      return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, kept(key, member)]));
    }
    return value === "ink" || value === "muted" || value === "line" ? colour(value) : value;
  }

  function axis(given) {
    const title = given?.title ? { title: { font: { size: 11 }, ...given.title } } : {};
    return { gridcolor: colour("line"), zerolinecolor: colour("line"), linecolor: colour("muted"), automargin: true, ...given, ...title };
  }

  function draw(element, figure) {
    drawn.set(element, figure);
    const layout = coloured(figure.layout || {});
    const margin = { l: 8, r: 10, t: 8, b: 36 };
    const full = {
      font: { family: "system-ui, sans-serif", size: 12, color: colour("ink") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      hoverlabel: { bgcolor: colour("ground"), bordercolor: colour("muted"), font: { color: colour("ink") } },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 }, traceorder: "normal" },
      margin, height: 320, dragmode: "pan", ...layout, xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis),
    };
    return Plotly.react(element, coloured(figure.data), full, {
      responsive: true, displayModeBar: false, doubleClick: "reset+autosize",
    });
  }

  function redraw() {
    for (const [element, figure] of drawn) draw(element, figure);
  }

  // A folded section has no width, so its figures are drawn when it opens.
  function drawVisible(root) {
    for (const element of root.querySelectorAll("[data-figure]")) {
      if (element.closest("details:not([open])")) continue;
      if (drawn.has(element)) Plotly.Plots.resize(element);
      else draw(element, figures[element.dataset.figure]);
    }
  }

  function reveal(id) {
    const target = document.getElementById(id);
    if (!target) return;
    for (let parent = target; parent; parent = parent.parentElement) {
      if (parent.tagName === "DETAILS") parent.open = true;
    }
    target.scrollIntoView();
  }

  const figures = readJson("figures");
  drawVisible(document);
  for (const section of document.querySelectorAll("details.section")) {
    section.addEventListener("toggle", () => section.open && drawVisible(section));
  }
  for (const link of document.querySelectorAll("nav a[href^='#'], .note a[href^='#']")) {
    link.addEventListener("click", () => reveal(link.getAttribute("href").slice(1)));
  }
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  if (/^#[\w-]+$/.test(location.hash)) reveal(location.hash.slice(1));
  return { draw, readJson };
})();
