"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const ink = (k) => colour("--c" + (k % 8));
// plotly reads some HTML in its texts: what users wrote has to stay text there, too
const safe = (s) => String(s).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const STATE = { view: "risk", bands: true, hidden: new Set(), model: DATA.best, step: DATA.models.map((m) => m.start) };
const CONFIG = { displayModeBar: false, responsive: true };

function veil(hex) {
  const n = parseInt(hex.slice(1), 16);
  return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${DATA.models.length > 4 ? 0.09 : 0.14})`;
}

function layout(more) {
  const line = colour("--line"), text = colour("--soft");
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, tickfont: { color: text }, automargin: true };
  return Object.assign({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    font: { family: "system-ui, sans-serif", size: 13, color: text }, margin: { l: 62, r: 16, t: 12, b: 48 },
    hoverlabel: { bgcolor: colour("--card"), bordercolor: line, font: { color: colour("--ink") }, align: "left" },
    xaxis: Object.assign({}, axis, more.x), yaxis: Object.assign({}, axis, more.y),
  }, more.rest || {});
}

function curveTraces() {
  const traces = [];
  const format = DATA.zero_one ? ".2%" : ".4g";
  DATA.models.forEach((model, k) => {
    if (STATE.hidden.has(k)) return;
    const view = model[STATE.view];
    if (view.band && STATE.bands) {
      const skip = { hoverinfo: "skip", mode: "lines", line: { width: 0 }, type: "scatter" };
      traces.push(Object.assign({ x: view.band.coverage, y: view.band.low }, skip));
      traces.push(Object.assign({ x: view.band.coverage, y: view.band.high, fill: "tonexty", fillcolor: veil(ink(k)) }, skip));
    }
    traces.push({
      x: view.coverage, y: view.value, type: "scatter", name: safe(model.name),
      // few thresholds make a staircase: what is accepted together is shown together
      mode: view.value.length > 60 ? "lines" : "lines+markers", marker: { size: 5 },
      line: { color: ink(k), width: 2, dash: ["solid", "dash", "dot"][Math.floor(k / 8) % 3], shape: view.value.length > 60 ? "linear" : "vh" },
      hovertemplate: `coverage %{x:.1%}<br>${STATE.view === "risk" ? "risk" : "generalised risk"} %{y:${format}}<extra>%{fullData.name}</extra>`,
    });
  });
  const model = DATA.models[STATE.model], at = STATE.step[STATE.model];
  if (!STATE.hidden.has(STATE.model)) {
    const share = model.steps.coverage[at], risk = model.steps.risk[at];
    traces.push({
      x: [share], y: [STATE.view === "risk" ? risk : risk * share], type: "scatter", mode: "markers", hoverinfo: "skip",
      marker: { size: 12, color: ink(STATE.model), line: { color: colour("--card"), width: 2 } },
    });
  }
  return traces;
}

function drawCurves() {
  const title = STATE.view === "risk" ? DATA.words.risk : DATA.words.generalised;
  Plotly.react("curve-chart", curveTraces(), layout({
    x: { title: { text: "coverage: share of all samples that is answered" }, range: [0, 1.005], tickformat: ".0%" },
    y: { title: { text: title }, rangemode: "tozero", tickformat: DATA.zero_one ? ".1~%" : ".3~g" },
  }), CONFIG);
}

function drawForest() {
  if (!byId("forest")) return;
  const rows = DATA.forest.slice().reverse();
  const names = rows.map((r, i) => i);
  const traces = rows.map((r, i) => ({
    x: [r.estimate], y: [i], type: "scatter", mode: "markers", name: safe(r.model),
    marker: { color: ink(r.colour), size: 9, symbol: r.first ? "circle" : "circle-open" },
    error_x: r.low === null ? undefined : {
      type: "data", symmetric: false, array: [r.high - r.estimate], arrayminus: [r.estimate - r.low],
      color: ink(r.colour), thickness: 1.5, width: 4,
    },
    hovertemplate: `${safe(r.score).replace(/[%{}]/g, "")}<br>AURC %{x:.4g}<extra>%{fullData.name}</extra>`,
  }));
  Plotly.react("forest", traces, layout({
    x: { title: { text: `AURC with ${DATA.level} interval, lower is better` }, rangemode: "tozero" },
    y: { tickvals: names, ticktext: rows.map((r) => safe(r.label)), range: [-0.7, rows.length - 0.3], showgrid: false, zeroline: false },
    rest: { margin: { l: 40, r: 16, t: 8, b: 48 } },
  }), CONFIG);
}

function drawAll() { drawCurves(); drawForest(); }
