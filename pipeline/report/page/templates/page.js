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
  const number = (value, digits = 3) => (value === null || value === undefined ? "—" : value.toFixed(digits));

  const [WIDTH, HEIGHT, LEFT, BOTTOM] = [900, 320, 46, 24];
  const hidden = new Set();

  function svg(name, attributes, text = "") {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  }

  // Five round numbers from 0 to the top, or between two ends.
  function ticks(low, high) {
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(6)));
  }

  function found() {
    return Object.entries(data.results[chooseModel.value]).map(([condition, results]) => [condition, results[choosePrompt.value]])
      .filter(([, result]) => result);
  }

  // Each law and sample as heights over the same cells.
  function drawPlot() {
    const { edges, target, title } = data.prompts[choosePrompt.value];
    const curves = found().flatMap(([condition, { samples, exact }]) => [
      ...(samples ? [{ name: `${condition}, samples`, heights: samples, colour: data.colors[condition], kind: "samples" }] : []),
      ...(exact ? [{ name: `${condition}, exact law`, heights: exact, colour: data.colors[condition], kind: "exact" }] : []),
    ]);
    curves.push({ name: "asked", heights: target, colour: "var(--ink)", kind: "target" });
    // A collapsed model would flatten everything else.
    const highest = Math.max(...curves.flatMap((curve) => curve.heights)), limit = 3 * Math.max(...target);
    const top = 1.05 * Math.min(limit, highest);
    const [low, high] = [edges[0], edges[edges.length - 1]];
    const x = (value) => LEFT + (WIDTH - LEFT) * (value - low) / (high - low);
    const y = (value) => (HEIGHT - BOTTOM) * (1 - Math.min(value / top, 1));
    const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}` });
    for (const value of ticks(0, top)) {
      drawing.append(svg("path", { class: "axis", d: `M${LEFT} ${y(value)}H${WIDTH}` }));
      drawing.append(svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(value)));
    }
    for (const value of ticks(low, high)) {
      drawing.append(svg("text", { x: x(value), y: HEIGHT - 6, "text-anchor": "middle" }, String(value)));
    }
    for (const { name, heights, colour, kind } of curves) {
      if (hidden.has(name)) continue;
      const path = heights.map((height, place) => `V${y(height)}H${x(edges[place + 1])}`).join("");
      const made = svg("path", { class: kind, style: `stroke: ${colour}`, d: `M${x(low)} ${y(0)}${path}V${y(0)}` });
      made.append(svg("title", {}, name));
      if (kind === "samples") made.style.fill = `color-mix(in srgb, ${colour} 15%, transparent)`;
      drawing.append(made);
    }
    element("plot").replaceChildren(drawing);
    element("plot").setAttribute("aria-label", title);
    element("plot-note").textContent = `Probability of a cell, by value.${highest > limit ? " The vertical axis is cut at three times the highest cell of what was asked." : ""}`;
    element("legend").replaceChildren(...curves.map(({ name, colour }) => {
      const made = document.createElement("button");
      made.textContent = name;
      made.style.setProperty("--colour", colour);
      made.setAttribute("aria-pressed", !hidden.has(name));
      made.addEventListener("click", () => {
        if (!hidden.delete(name)) hidden.add(name);
        drawPlot();
        [...element("legend").children].find((other) => other.textContent === name).focus();
      });
      return made;
    }));
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
  draw();
})();
