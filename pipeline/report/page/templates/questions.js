// The explorer of questions: one question, one model, some conditions, four views.
"use strict";

(() => {
  const data = charts.readJson("questions-data");
  const look = charts.readJson("look");
  const element = (id) => document.getElementById(id);
  const HEIGHT = Math.sqrt(3) / 2;
  const TARGETS = { gold: "accepted answers", people: "people" };

  const question = () => element("choose-question").value;
  const boxes = () => [...document.querySelectorAll("#question-conditions input")];
  const results = () => data.results[element("question-model").value];
  const chosen = () => boxes().filter((box) => box.checked && results()[box.value]).map((box) => [box.value, results()[box.value]]);

  function options(select, entries) {
    select.replaceChildren(...entries.map(([value, text]) => new Option(text, value)));
  }

  function bars(found) {
    const own = found.map(([name, result]) => [name, result.bars[question()]]).filter(([, shares]) => shares);
    if (!own.length) return { traces: [] };
    const labels = [...new Set(own.flatMap(([, shares]) => Object.keys(shares.people)))];
    const bar = (name, shares, marker) => ({ type: "bar", orientation: "h", name, y: labels, x: labels.map((label) => shares[label] || 0), marker });
    const traces = [bar("people", own[0][1].people, { color: "ink" }),
      ...own.map(([name, shares]) => bar(name, shares.answers, { color: look.colors[name] }))];
    return { traces, layout: { height: 90 + labels.length * (8 * traces.length + 8), barmode: "group", xaxis: { title: { text: "share" }, rangemode: "tozero" },
      yaxis: { autorange: "reversed", type: "category", showgrid: false } } };
  }

  // A law over three classes as a point of a triangle with sides of length 1.
  const point = ([, right, top]) => [right + top / 2, top * HEIGHT];

  function points(name, laws, marker) {
    const places = laws.map(({ law }) => point(law));
    return { type: "scatter", mode: "markers", name, x: places.map(([x]) => x), y: places.map(([, y]) => y),
      text: laws.map((entry) => `${name}, ${entry.name}: ${entry.law.join(", ")}`), hoverinfo: "text", marker };
  }

  function simplex(found) {
    const own = found.map(([name, result]) => [name, result.simplex[question()]]).filter(([, laws]) => laws);
    if (!own.length) return { traces: [], note: "The triangle is drawn for questions with people's law and three classes of answers in all." };
    const outline = { type: "scatter", mode: "lines", x: [0, 1, 0.5, 0], y: [0, 0, HEIGHT, 0], line: { color: "muted", width: 1 }, hoverinfo: "skip", showlegend: false };
    const traces = [outline];
    for (const [name, laws] of own) {
      const marker = { color: look.colors[name], symbol: look.symbols[name], size: 9 };
      traces.push(points(name, laws.settings, marker));
      if (laws.variants) traces.push(points(`${name}, paraphrases`, laws.variants, { ...marker, symbol: `${marker.symbol}-open` }));
    }
    traces.push(points("people", [{ name: "people", law: own[0][1].people }], { color: "ink", symbol: "x", size: 11 }));
    const corners = [[0, 0, "top"], [1, 0, "top"], [0.5, HEIGHT, "bottom"]];
    const annotations = corners.map(([x, y, yanchor], place) => ({ x, y, yanchor, text: own[0][1].labels[place].replaceAll("<", "&lt;"), showarrow: false }));
    const hidden = { visible: false, fixedrange: true };
    return { traces, layout: { annotations, xaxis: { ...hidden, range: [-0.1, 1.1] }, yaxis: { ...hidden, range: [-0.12, 1], scaleanchor: "x" } } };
  }

  const unit = (text) => ({ title: { text }, range: [-0.03, 1.03] });
  const diagonal = { type: "scatter", mode: "lines", x: [0, 1], y: [0, 1], line: { color: "ink", width: 1 }, hoverinfo: "skip", showlegend: false };

  function reliability(found) {
    const traces = found.flatMap(([name, result]) => Object.entries(result.reliability).map(([target, own]) => ({
      type: "scatter", mode: "lines+markers", name: `${name}, ${TARGETS[target] || target}`, x: own.confidence, y: own.frequency,
      text: own.size.map((size) => `${size} questions`), hovertemplate: "%{text}: confidence %{x}, label %{y}<extra></extra>",
      error_y: { type: "data", symmetric: false, color: look.colors[name], width: 0, thickness: 1,
        array: own.band_high.map((high, i) => Math.max(0, high - own.frequency[i])), arrayminus: own.band_low.map((low, i) => Math.max(0, own.frequency[i] - low)) },
      line: { color: look.colors[name], dash: target === "gold" ? "solid" : "dot", width: 1.5 },
      marker: { color: look.colors[name], symbol: look.symbols[name], size: own.size.map((size) => 5 + 2 * Math.sqrt(size)) },
    })));
    const layout = { xaxis: unit("confidence in the most frequent class"), yaxis: unit("right, or share of people") };
    return { traces: traces.length ? [diagonal, ...traces] : [], layout, note: "Over all questions. Bars reach to where 95% of a calibrated model's points lie." };
  }

  function entropies(found) {
    const traces = found.filter(([, result]) => Object.keys(result.entropies).length).map(([name, result]) => {
      const own = Object.entries(result.entropies);
      return { type: "scatter", mode: "markers", name, x: own.map(([, [people]]) => people), y: own.map(([, [, model]]) => model),
        text: own.map(([id]) => data.questions[id]), hovertemplate: "%{text}<br>people %{x}, model %{y}<extra></extra>",
        marker: { color: look.colors[name], symbol: look.symbols[name], size: own.map(([id]) => (id === question() ? 15 : 6)), opacity: own.map(([id]) => (id === question() ? 1 : 0.5)) } };
    });
    const layout = { xaxis: { title: { text: "entropy of people's answers" } }, yaxis: { title: { text: "semantic entropy of the model's" } } };
    return { traces: traces.length ? [diagonal, ...traces] : [], layout, note: "Both over the logarithm of the number of people's classes. Large: the chosen question." };
  }

  const VIEWS = { bars, simplex, reliability, entropies };

  function drawAll() {
    for (const box of boxes()) box.disabled = !results()[box.value];
    element("question-text").textContent = data.questions[question()];
    for (const [view, build] of Object.entries(VIEWS)) {
      const { traces, layout, note } = build(chosen());
      const plot = element(`plot-question-${view}`);
      plot.nextElementSibling.textContent = traces.length ? note || "" : note || "Not evaluated under the chosen conditions.";
      if (traces.length) charts.draw(plot, { data: traces, layout: { height: 360, ...layout } });
      else Plotly.purge(plot);
    }
  }

  options(element("question-model"), Object.entries(data.models));
  options(element("choose-question"), Object.entries(data.labels));
  element("question-explorer").addEventListener("change", drawAll);
  drawAll();
})();
