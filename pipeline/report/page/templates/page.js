// Folded sections open from links, and the view of one law: target, samples and exact laws over the same cells.
"use strict";

(() => {
  const element = (id) => document.getElementById(id);

  function reveal(id) {
    const target = element(id);
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target?.scrollIntoView();
  }
  for (const link of document.querySelectorAll("a[href^='#']")) {
    link.addEventListener("click", () => reveal(link.getAttribute("href").slice(1)));
  }
  if (/^#[\w-]+$/.test(location.hash)) reveal(location.hash.slice(1));
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));

  const data = JSON.parse(element("explorer-data").textContent);
  const prompts = Object.entries(data.prompts);
  const models = Object.keys(data.models).filter((model) => data.results[model]);
  if (!prompts.length || !models.length) return;
  const [chooseModel, choosePrompt] = [element("choose-model"), element("choose-prompt")];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const number = (value, digits = 3) => (value === null || value === undefined ? "—" : value.toFixed(digits));

  // Heights over cells of equal width as the corners of a step line.
  function steps(name, edges, heights, line, more = {}) {
    return { type: "scatter", mode: "lines", name, x: edges, y: [...heights, heights[heights.length - 1]],
      line: { shape: "hv", ...line }, ...more };
  }

  function found() {
    return Object.entries(data.results[chooseModel.value]).map(([condition, results]) => [condition, results[choosePrompt.value]])
      .filter(([, result]) => result);
  }

  function drawPlot() {
    const { edges, target, title } = data.prompts[choosePrompt.value];
    const traces = found().flatMap(([condition, { samples, exact }]) => [
      ...(samples ? [steps(`${condition}, samples`, edges, samples, { color: data.colors[condition], width: 1.3 },
        { fill: "tozeroy", fillcolor: `${data.colors[condition]}22` })] : []),
      ...(exact ? [steps(`${condition}, exact law`, edges, exact, { color: data.colors[condition], width: 2, dash: "dot" })] : []),
    ]);
    traces.push(steps("target", edges, target, { color: colour("ink"), width: 2 }));
    // A collapsed model would flatten everything else; the axis can be dragged.
    const top = 3 * Math.max(...target);
    const highest = Math.max(...traces.flatMap((trace) => trace.y));
    const axis = { gridcolor: colour("line"), zerolinecolor: colour("line"), automargin: true };
    Plotly.react("plot", traces, {
      height: 380, dragmode: "pan", margin: { l: 8, r: 10, t: 8, b: 36 },
      font: { family: "system-ui, sans-serif", size: 12, color: colour("ink") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" },
      xaxis: { ...axis, title: { text: "value" } },
      yaxis: { ...axis, title: { text: "probability of a cell" }, range: [0, 1.05 * Math.min(top, highest)] },
    }, { responsive: true, displayModeBar: false, doubleClick: "reset+autosize" });
    element("plot").setAttribute("aria-label", title);
    element("plot-note").textContent = highest > top ? "The vertical axis is cut at three times the target's peak; double-click shows all." : "";
  }

  function row([condition, result]) {
    const made = document.createElement("tr");
    const reasons = Object.entries(result.invalid || {}).map(([reason, count]) => `${count} ${reason.replaceAll("_", " ")}`);
    const interval = result.w1Low === null || result.w1Low === undefined ? "" : ` [${number(result.w1Low)}, ${number(result.w1High)}]`;
    const texts = [condition, `${result.valid} of ${result.n}`, reasons.join(", ") || "none", number(result.w1) + interval,
      number(result.floor), number(result.kl)];
    made.append(...texts.map((text, place) => {
      const cell = document.createElement(place ? "td" : "th");
      cell.textContent = text;
      return cell;
    }));
    return made;
  }

  function draw() {
    element("prompt-text").textContent = data.prompts[choosePrompt.value].text;
    element("results").replaceChildren(...found().map(row));
    drawPlot();
  }

  chooseModel.append(...models.map((model) => new Option(data.models[model], model)));
  for (const [split, title] of Object.entries(data.splits)) {
    const group = document.createElement("optgroup");
    group.label = title;
    group.append(...prompts.filter(([, prompt]) => prompt.split === split).map(([id, prompt]) => new Option(prompt.title, id)));
    if (group.children.length) choosePrompt.append(group);
  }
  chooseModel.addEventListener("change", draw);
  choosePrompt.addEventListener("change", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawPlot);
  draw();
})();
