// The explorer: one prompt, one model, some conditions, three views. Its state is in the address's fragment.
"use strict";

(() => {
  const data = charts.readJson("explorer-data");
  const look = charts.readJson("look");
  const element = (id) => document.getElementById(id);
  const prompts = Object.entries(data.prompts).map(([id, prompt]) => ({ id, ...prompt }));
  const PREFIX = "#explorer/";
  const state = { model: null, prompt: null, conditions: [] };

  const unique = (values) => [...new Set(values)];
  const evaluation = (condition) => (data.results[state.model] || {})[condition];
  const prompt = () => data.prompts[state.prompt];
  const result = (condition) => evaluation(condition)?.prompts[state.prompt];
  const number = (value, digits = 3) => (value === null || value === undefined ? "—" : value.toFixed(digits));
  const faded = (hex, alpha) => `rgba(${[1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16)).join(",")},${alpha})`;
  const middle = (low, high) => low.map((value, i) => (value === null || high[i] === null ? null : (value + high[i]) / 2));

  function fill(select, entries, chosen) {
    select.replaceChildren(...entries.map(([value, text]) => new Option(text, value, false, value === chosen)));
  }

  // ---- views ----

  function line(name, condition, x, y, more = {}) {
    const style = { color: look.colors[condition], width: 2, ...more.line };
    return { type: "scatter", mode: "lines", name, x, y, ...more, line: style };
  }

  // Beside each other the views are small: their legends say what the lines are, the controls say whose.
  function kinds(traces, entries) {
    const key = ([name, style]) => ({ type: "scatter", mode: "lines", name, x: [null], y: [null], line: { color: "muted", width: 2 }, ...style });
    return [...traces.map((trace) => ({ ...trace, showlegend: trace.name === "target" })), ...entries.map(key)];
  }

  const SAMPLES = ["samples", { fill: "tozeroy", fillcolor: "rgba(128,128,128,0.2)", line: { color: "muted", width: 1.2 } }];

  function lawGrid(law) {
    return law.cdf.map((_, i) => law.start + i * law.step);
  }

  // Heights over the cells between ends, as the corners of a step line.
  function steps(ends, heights) {
    return { x: ends, y: [...heights, heights[heights.length - 1]] };
  }

  // The distribution function between its points; what lies beyond the points is left out.
  function interpolated(x, y, at, integer) {
    const next = x.findIndex((value) => value >= at);
    if (next === -1) return y[y.length - 1];
    if (next === 0) return x[0] === at || !integer ? y[0] : 0;
    return y[next - 1] + (y[next] - y[next - 1]) * (at - x[next - 1]) / (x[next] - x[next - 1]);
  }

  function density(found) {
    const law = prompt().law;
    const grid = lawGrid(law);
    const shift = law.integer ? 0.5 : 0;
    const heights = law.cdf.slice(1).map((value, i) => (value - law.cdf[i]) / (law.integer ? 1 : law.step));
    const centres = heights.map((_, i) => law.start + (i + 0.5) * law.step + shift);
    const traces = [];
    for (const [condition, { samples, exact }] of found) {
      if (samples) {
        const n = samples.counts.reduce((a, b) => a + b, samples.below + samples.above);
        const width = law.integer ? 1 : law.step * law.perBin;
        const ends = grid.filter((_, i) => i % law.perBin === 0).map((value) => value + shift);
        traces.push(line(`${condition}, samples`, condition, [], [], { ...steps(ends, samples.counts.map((count) => count / n / width)),
          line: { shape: "hv", width: 1.2 }, fill: "tozeroy", fillcolor: faded(look.colors[condition], 0.13) }));
      }
      if (exact) {
        // Over half of the histogram's bins: between neighbouring points the bounds are too wide for a density.
        const mid = middle(exact.low, exact.high);
        const ends = grid.filter((_, i) => i % Math.max(1, law.perBin / 2) === 0);
        const values = ends.map((end) => interpolated(exact.x, mid, end, law.integer));
        const over = values.slice(1).map((value, i) => (value - values[i]) / (law.integer ? 1 : ends[i + 1] - ends[i]));
        traces.push(line(`${condition}, exact law`, condition, [], [],
          { ...steps(ends.map((end) => end + shift), over), line: { shape: "hv", dash: "dot", width: 2 } }));
      }
    }
    traces.push({ type: "scatter", mode: law.integer ? "markers" : "lines", name: "target", x: centres, y: heights,
      line: { color: "ink", width: 2 }, marker: { color: "ink", size: 7, symbol: "circle-open", line: { width: 2 } } });
    // A collapsed model would flatten everything else; the axis can be dragged.
    const peak = Math.max(...(heights.length > 4 ? heights.slice(1, -1) : heights), 1e-9);
    const top = Math.max(...traces.flatMap((trace) => trace.y.filter(Number.isFinite)));
    const shown = kinds(traces, [SAMPLES, ["exact law", { line: { color: "muted", width: 2, dash: "dot" } }]]);
    return { traces: shown, x: "value", y: law.integer ? (law.step > 1 ? `probability of ${law.step} values` : "probability") : "density",
      range: windowRange(), yrange: top > 3 * peak ? [0, 3 * peak] : null, cut: top > 3 * peak };
  }

  function windowRange() {
    const law = prompt().law;
    const shift = law.integer ? 0.5 : 0;
    return [law.start + shift, law.start + shift + law.step * (law.cdf.length - 1)];
  }

  function cumulative(found) {
    const law = prompt().law;
    const shape = law.integer ? "hv" : "linear";
    const traces = [];
    for (const [condition, { samples, exact }] of found) {
      if (exact) {
        const band = { line: { width: 0, shape }, showlegend: false, hoverinfo: "skip" };
        traces.push(line("", condition, exact.x, exact.low, band));
        traces.push(line(`${condition}, exact law (bounds)`, condition, exact.x, exact.high,
          { line: { width: 0.5, shape }, fill: "tonexty", fillcolor: faded(look.colors[condition], 0.3) }));
      }
      if (samples?.quantiles.length) {
        traces.push(line(`${condition}, samples`, condition, samples.quantiles, look.levels, { line: { shape: "hv", width: 1.5 } }));
      }
    }
    traces.push({ type: "scatter", mode: "lines", name: "target", x: lawGrid(law), y: law.cdf, line: { color: "ink", width: 1.5, shape } });
    const band = { fill: "tozeroy", fillcolor: "rgba(128,128,128,0.4)", line: { color: "muted", width: 0 } };
    const shown = kinds(traces, [["samples", { line: { color: "muted", width: 1.5 } }], ["exact law (bounds)", band]]);
    return { traces: shown, x: "value", y: "probability of at most this value", range: windowRange(), yrange: [-0.02, 1.02] };
  }

  function transforms(found) {
    const traces = [];
    const sizes = found.filter(([, { pit }]) => pit).map(([condition, { pit }]) => ({ condition, pit, n: pit.counts.reduce((a, b) => a + b, 0) }));
    const drawn = sizes.filter(({ n }) => n > 0);
    if (!drawn.length) return { traces };
    const widest = drawn.reduce((a, b) => (b.n < a.n ? b : a));
    const bins = widest.pit.counts.length;
    const level = (count) => (count * bins) / widest.n;
    const flat = { type: "scatter", mode: "lines", x: [0, 1], line: { width: 0, color: "muted" }, hoverinfo: "skip", showlegend: false };
    traces.push({ ...flat, y: [level(widest.pit.low), level(widest.pit.low)] });
    traces.push({ ...flat, y: [level(widest.pit.high), level(widest.pit.high)], fill: "tonexty", fillcolor: "rgba(128,128,128,0.25)",
      name: `95% of a bin at n = ${widest.n}`, showlegend: true });
    for (const { condition, pit, n } of drawn) {
      const ends = [...pit.counts.keys(), bins].map((place) => place / bins);
      traces.push(line(condition, condition, [], [], { ...steps(ends, pit.counts.map((count) => (count * bins) / n)), line: { shape: "hv" } }));
    }
    traces.push({ ...flat, y: [1, 1], line: { width: 1, color: "ink" } });
    return { traces, x: "probability integral transform", y: "frequency, 1 = calibrated", range: [0, 1] };
  }

  const BUILDERS = { density, cdf: cumulative, pit: transforms };
  const NEEDED = { density: ["samples", "exact"], cdf: ["samples", "exact"], pit: ["pit"] };

  // ---- drawing ----

  function drawView(view) {
    const panel = element(`panel-${view}`);
    const found = state.conditions.filter(result).map((condition) => [condition, result(condition)]);
    const built = BUILDERS[view](found);
    const plot = element(`plot-${view}`);
    const notes = missing(view);
    if (built.cut) notes.unshift("The vertical axis is cut at three times the target's peak; double-click shows all.");
    panel.querySelector(".note").textContent = notes.join(" ");
    if (!built.traces.length) {
      Plotly.purge(plot);
      plot.textContent = "";
      return;
    }
    const layout = {
      height: 330,
      xaxis: { title: { text: built.x }, range: built.range },
      yaxis: { title: { text: built.y }, ...(built.yrange ? { range: built.yrange } : { rangemode: "tozero" }) },
    };
    charts.draw(plot, { data: built.traces, layout });
    plot.setAttribute("aria-label", `${panel.querySelector("h4").textContent}: ${prompt().title}, ${prompt().parameters}, ${state.conditions.join(", ")}`);
  }

  function missing(view) {
    if (!state.conditions.length) return ["No condition is chosen."];
    const reasons = new Map();
    const add = (condition, reason) => reasons.set(reason, [...(reasons.get(reason) || []), condition]);
    for (const condition of state.conditions) {
      const whole = evaluation(condition);
      if (!whole) add(condition, "not run");
      else for (const part of NEEDED[view]) {
        const name = look.parts[part];
        if (whole.absent[part]) add(condition, `no ${name}, ${whole.absent[part]}`);
        else if (!result(condition)?.[part]) add(condition, `no ${name} for this prompt`);
        else if (part === "samples" && !result(condition).valid) add(condition, "no valid answer");
      }
    }
    return [...reasons].map(([reason, conditions]) => `${conditions.join(", ")}: ${reason}.`);
  }

  function cell(tag, text, kind = "") {
    const made = document.createElement(tag);
    made.textContent = text;
    made.className = kind;
    return made;
  }

  function row(condition) {
    const made = document.createElement("tr");
    made.append(cell("th", condition));
    const whole = evaluation(condition);
    const found = result(condition);
    if (!found) {
      made.append(cell("td", whole ? "not evaluated on this prompt" : "not run", "missing left"));
      made.lastChild.colSpan = 7;
      return made;
    }
    const reasons = Object.entries(found.invalid).map(([reason, count]) => `${count} ${reason.replaceAll("_", " ")}`).join(", ");
    const w1 = cell("td", number(found.w1));
    if (found.w1Low !== null && found.w1Low !== undefined) w1.append(cell("small", `[${number(found.w1Low)}, ${number(found.w1High)}]`));
    const bounds = found.exactLow === null || found.exactLow === undefined ? "—" : `${number(found.exactLow)} to ${number(found.exactHigh)}`;
    const outside = found.samples ? found.samples.below + found.samples.above : null;
    const ratio = found.floor ? number(found.w1 === null ? null : found.w1 / found.floor, 1) : "—";
    const floor = cell("td", number(found.floor));
    floor.append(cell("small", `W1 is ${ratio} times this`));
    made.append(cell("td", `${found.valid} of ${found.n}`), cell("td", reasons || "none", "reasons"), w1, floor, cell("td", bounds),
      cell("td", number(found.kl)), cell("td", outside === null ? "—" : String(outside)));
    const source = cell("td", "", "left");
    source.append(cell("code", whole.source));
    made.append(source);
    return made;
  }

  function drawAll() {
    const chosen = prompt();
    element("prompt-text").textContent = chosen.text;
    element("results").replaceChildren(...state.conditions.map(row));
    look.views.forEach(drawView);
    element("permalink").href = address();
  }

  // ---- state ----

  function address() {
    const fields = { model: state.model, prompt: state.prompt, conditions: state.conditions.join(",") };
    return PREFIX + new URLSearchParams(fields).toString().replaceAll("%2C", ",");
  }

  function controls() {
    const chosen = prompt();
    fill(element("choose-model"), Object.entries(data.models), state.model);
    fill(element("choose-split"), unique(prompts.map((each) => each.split)).map((split) => [split, look.splits[split] || split]), chosen.split);
    const inSplit = prompts.filter((each) => each.split === chosen.split);
    const families = new Map(inSplit.map((each) => [each.family, each.title]));
    fill(element("choose-family"), [...families], chosen.family);
    fill(element("choose-parameters"), inSplit.filter((each) => each.family === chosen.family).map((each) => [each.id, each.parameters]), state.prompt);
    for (const box of document.querySelectorAll("#choose-conditions input")) {
      const run = Boolean(evaluation(box.value));
      box.disabled = !run;
      box.checked = run && state.conditions.includes(box.value);
      box.nextElementSibling.textContent = run ? box.value : `${box.value} (not run)`;
    }
  }

  function changed() {
    controls();
    drawAll();
    history.replaceState(null, "", address());
  }

  function restore() {
    if (!location.hash.startsWith(PREFIX)) return false;
    const fields = new URLSearchParams(location.hash.slice(PREFIX.length));
    const unknown = [];
    const take = (name, known) => {
      const value = fields.get(name);
      if (value === null) return;
      if (known.includes(value)) state[name] = value;
      else unknown.push(`${name} ${value}`);
    };
    take("model", Object.keys(data.models));
    take("prompt", Object.keys(data.prompts));
    if (fields.has("conditions")) {
      const named = fields.get("conditions").split(",").filter(Boolean);
      state.conditions = data.conditions.filter((condition) => named.includes(condition));
      unknown.push(...named.filter((condition) => !data.conditions.includes(condition)).map((condition) => `condition ${condition}`));
    }
    element("explorer-message").textContent = unknown.length ? `This page has no ${unknown.join(", no ")}.` : "";
    return true;
  }

  function listen() {
    element("choose-model").addEventListener("change", (event) => { state.model = event.target.value; changed(); });
    element("choose-split").addEventListener("change", (event) => { state.prompt = prompts.find((each) => each.split === event.target.value).id; changed(); });
    element("choose-family").addEventListener("change", (event) => {
      state.prompt = prompts.find((each) => each.split === prompt().split && each.family === event.target.value).id;
      changed();
    });
    element("choose-parameters").addEventListener("change", (event) => { state.prompt = event.target.value; changed(); });
    element("choose-conditions").addEventListener("change", () => {
      const boxes = [...document.querySelectorAll("#choose-conditions input")];
      state.conditions = boxes.filter((box) => box.checked).map((box) => box.value);
      changed();
    });
    window.addEventListener("hashchange", () => { if (restore()) { controls(); drawAll(); } });
  }

  function defaults() {
    const first = prompts.find((each) => each.split === "ood" && !each.law.integer) || prompts[0];
    const family = prompts.filter((each) => each.split === first.split && each.family === first.family);
    state.model = Object.keys(data.models).find((model) => data.results[model]) || Object.keys(data.models)[0];
    state.prompt = family[Math.floor(family.length / 2)].id;
    state.conditions = data.conditions.filter((condition) => look.first.includes(condition) && evaluation(condition));
  }

  if (!prompts.length) return;
  defaults();
  const linked = restore();
  controls();
  drawAll();
  listen();
  if (linked) element("explorer").scrollIntoView();
})();
