"use strict";
const DATA = JSON.parse(byId("data").textContent);
const STATE = { view: "risk", bands: true, log: DATA.log, hidden: new Set(), unfolded: new Set(), tried: new Set(), model: DATA.best, step: DATA.models.map((m) => m.start), rule: DATA.models.map((m) => m.rule_start) };
const SETTLED = 0.05; // a few cases decide the risk further left: that does not stretch the scale of the figure
const MANY = 3; // with more curves than this only the selected one has a band

const asShare = (x, digits = 1) => x > 0 && x < Math.pow(10, -digits - 2) ? (100 * x).toPrecision(2) + "%" : (100 * x).toFixed(digits) + "%";
const asRisk = (x) => DATA.zero_one ? asShare(x, 2) : Number(x.toPrecision(4)).toString();
const asCount = (x) => x.toLocaleString("en-US");
const plain = (x) => Number(x.toPrecision(3)).toString();

// the curves; generalised risk is selective risk times coverage, and so are the limits of its band

function generalised(view) {
  const times = (values, shares) => values.map((v, i) => v * shares[i]), band = view.band;
  return {
    coverage: view.coverage, value: times(view.value, view.coverage),
    band: band && { coverage: band.coverage, low: times(band.low, band.coverage), high: times(band.high, band.coverage) },
  };
}
DATA.models.forEach((m) => { m.generalised = generalised(m.risk); });

function chosenPoint() {
  const steps = DATA.models[STATE.model].steps, at = STATE.step[STATE.model];
  const share = steps.coverage[at], risk = steps.risk[at];
  return { share, value: STATE.view === "risk" ? risk : risk * share };
}

// A promised threshold has a dot, and so has one that the reader tries. Where nothing can be promised there is none.
function hasDot() {
  const rule = chosenRule();
  return !STATE.hidden.has(STATE.model) && (STATE.tried.has(STATE.model) || Boolean(rule && rule.step !== null));
}

function aboutDot() {
  const model = DATA.models[STATE.model], rule = chosenRule(), { share, value } = chosenPoint();
  if (STATE.hidden.has(STATE.model)) return "";
  if (!hasDot()) return `No dot: there is no threshold with a promise${rule ? ` at ${rule.risk_text}` : ""}. Move the slider below to try any threshold.`;
  const risk = `${STATE.view === "risk" ? "" : "generalised "}${DATA.zero_one ? "risk (share wrong)" : "mean loss"}`;
  return `The dot marks the threshold${STATE.tried.has(STATE.model) ? " tried below, without a promise" : ""}: ${model.name} answers ${asShare(share)} with a ${risk} of ${asRisk(value)}.`;
}

function curves(saved = false, small = false) {
  const shown = DATA.models.map((m, k) => ({ name: m.name, view: m[STATE.view], k })).filter((m) => !STATE.hidden.has(m.k));
  shown.sort((a, b) => (a.k === STATE.model) - (b.k === STATE.model)); // the selected curve is drawn on top
  const crowd = shown.length > MANY, marks = [], word = STATE.view === "risk" ? "risk" : "generalised risk";
  shown.forEach((m) => {
    if (m.view.band && STATE.bands && (!crowd || m.k === STATE.model)) marks.push({ kind: "area", x: m.view.band.coverage, low: m.view.band.low, high: m.view.band.high, k: m.k });
  });
  shown.forEach((m) => marks.push({
    kind: "line", x: m.view.coverage, y: m.view.value, k: m.k, name: m.name, faint: crowd && m.k !== STATE.model,
    tell: (x, y) => [m.name, `coverage ${asShare(x)}`, `${word} ${asRisk(y)}`],
  }));
  if (hasDot()) {
    const { share, value } = chosenPoint();
    marks.push({ kind: "point", x: share, y: value, k: STATE.model, r: 7 });
  }
  const asked = chosenRule();
  if (asked && STATE.view === "risk") marks.push({ kind: "level", y: asked.risk, text: `asked: at most ${asked.risk_text}` });
  const settled = (m) => (m.kind === "area" ? m.high : [m.y].flat()).filter((v, i) => [m.x].flat()[i] >= SETTLED || m.kind === "point");
  const values = marks.filter((m) => m.kind !== "level").flatMap(settled), positive = marks.flatMap((m) => m.kind === "line" ? m.y : []).filter((v) => v > 0);
  const high = Math.max(1e-9, ...values) * 1.04;
  const low = STATE.log ? Math.min(...positive, high / 10) / 1.3 : Math.min(0, ...values);
  const title = STATE.view === "risk" ? DATA.words.risk : DATA.words.generalised;
  return {
    title: `${title}, against coverage`, above: title + (!STATE.log ? "" : small ? ", log" : " (log scale; 0 is at the lower edge)"),
    about: `${shown.map((m) => m.name).join(", ")}. The table below the figure holds the numbers.`,
    height: saved ? 420 : small ? 250 : onPaper ? 300 : 400, x: { title: "coverage: share of all samples that is answered", low: 0, high: 1, format: (v) => asShare(v, 0), spacing: 60 },
    y: { low, high, log: STATE.log, format: (v) => DATA.zero_one ? `${plain(100 * v)}%` : plain(v), spacing: 48 },
    marks, legend: saved ? DATA.models.map((m, k) => ({ name: m.short, k })).filter((m) => !STATE.hidden.has(m.k)) : [],
  };
}

function drawCurves() {
  place("curve-chart", curves);
  byId("marked").textContent = aboutDot();
}

// scores with their intervals

function forest() {
  const rows = [], marks = [];
  DATA.forest.forEach((r, k) => {
    const first = k === 0 || DATA.forest[k - 1].model !== r.model;
    if (first && DATA.models.length > 1) rows.push({ head: DATA.models[r.colour].short, whole: r.model });
    rows.push(r);
  });
  rows.reverse().forEach((r, y) => {
    if (r.head) return;
    if (r.low !== null) marks.push({ kind: "span", low: r.low, high: r.high, y, k: r.colour });
    const span = r.low === null ? "no interval" : `${DATA.level} interval ${plain(r.low)} to ${plain(r.high)}`;
    marks.push({ kind: "point", x: r.estimate, y, k: r.colour, open: !r.first, tell: () => [r.model, r.score, `AURC ${plain(r.estimate)}`, span] });
  });
  const ends = DATA.forest.flatMap((r) => [r.estimate, r.low, r.high]).filter((v) => v !== null);
  const rowHeight = onPaper ? Math.max(12, Math.min(24, 720 / rows.length)) : 24; // the figure has to fit on one page
  return {
    title: `AURC of every score with ${DATA.level} intervals`, about: "The tables below the figure hold the numbers.",
    height: 66 + rowHeight * rows.length, x: { title: `AURC with ${DATA.level} interval, lower is better`, low: Math.min(0, ...ends), high: Math.max(1e-9, ...ends) * 1.03, format: plain },
    y: { low: -0.6, high: rows.length - 0.4, rows: rows.map((r) => r.head ? r : r.score) }, marks, legend: [],
  };
}

const drawAll = () => { drawCurves(); place("forest", forest); drawReliability(); };

// the rule: one step for each risk, chosen and tested when the page was written

const chosenRule = () => DATA.models[STATE.model].rules[STATE.rule[STATE.model]];

// text in which backticks stand around code
function setWithCode(element, text) {
  element.replaceChildren(...text.split("`").map((part, k) => k % 2 ? Object.assign(document.createElement("code"), { textContent: part }) : part));
}

function showRule() {
  const model = DATA.models[STATE.model], rules = model.rules, rule = chosenRule(), slider = byId("asked");
  byId("asked-part").hidden = rules.length < 2;
  byId("save-rule").hidden = !rule || rule.step === null || !model.packed;
  byId("promise").textContent = rule ? rule.promise : `No threshold with a promise for ${model.name}.`;
  setWithCode(byId("rule-facts"), rule ? rule.facts : model.no_rules);
  document.querySelector(".rule-more").hidden = !rule;
  byId("guarantee").textContent = rule ? rule.guarantee : "";
  const command = !rule || rule.step === null ? "" : model.packed ? model.apply : `${model.make} --risk ${rule.risk} --save rule.json`;
  byId("use-rule").replaceChildren(...(command ? [model.packed ? "Then: " : "To save it: ", Object.assign(document.createElement("code"), { textContent: command })] : []));
  document.querySelectorAll(".model-steps").forEach((box, k) => { box.hidden = k !== STATE.model; });
  if (!rule) return;
  slider.max = rules.length - 1;
  slider.value = STATE.rule[STATE.model];
  slider.setAttribute("aria-valuetext", rule.promise);
  byId("asked-risk").textContent = rule.risk_text;
  byId("asked-marks").replaceChildren(...rules.map((r, k) => Object.assign(document.createElement("span"), { textContent: r.risk_text, className: k === STATE.rule[STATE.model] ? "now" : "" })));
}

function askFor(at) {
  STATE.rule[STATE.model] = at;
  const step = chosenRule().step;
  STATE.tried.delete(STATE.model);
  if (step !== null) STATE.step[STATE.model] = step;
  chooseModel(STATE.model);
}

// the JSON of a model's rules: gzip in base64 of a list, the part that all rules share first (report/certified.py)

async function unpackRules(packed) {
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const [shared, ...texts] = JSON.parse(await new Response(stream).text());
  return texts.map((t) => t.split("\u0001").join(shared));
}

async function saveRule() {
  const texts = await unpackRules(DATA.models[STATE.model].packed);
  save("rule.json", new Blob([texts[STATE.rule[STATE.model]]], { type: "application/json" }));
}

// reliability of the selected model

function reliability() {
  const model = DATA.models[STATE.model], r = model.reliability, marks = [{ kind: "line", x: [0, 1], y: [0, 1], k: null, faint: true, straight: true }];
  if (r) r.confidence.forEach((c, i) => {
    marks.push({ kind: "bar", x: c, low: r.low[i], high: r.high[i], k: STATE.model });
    marks.push({ kind: "point", x: c, y: r.accuracy[i], k: STATE.model, tell: () => [model.name, `confidence ${asShare(c)}`, `right ${asShare(r.accuracy[i])}, ${asShare(r.low[i])} to ${asShare(r.high[i])}`, countNoun(r.count[i], "answer")] });
  });
  const axis = { low: 0, high: 1, format: (v) => asShare(v, 0), spacing: 60 };
  return {
    title: `Accuracy against confidence: ${model.name}`, about: "Points on the diagonal: the confidence is the share of right answers.", above: `right answers: ${model.short}`,
    height: 420, x: { ...axis, title: "confidence" }, y: axis, marks, legend: [],
  };
}

function drawReliability() {
  if (!byId("reliability-chart")) return;
  const model = DATA.models[STATE.model];
  byId("reliability-told").textContent = model.reliability ? "" : `The confidence of ${model.name} is not a probability.`;
  byId("reliability-chart").parentNode.hidden = !model.reliability;
  place("reliability-chart", reliability);
}

// the slider

function tell(id, value, text) {
  byId(id).textContent = text;
  byId(id).dataset.value = String(value);
}

let announcing = 0;

function showStep() {
  const model = DATA.models[STATE.model], steps = model.steps, at = STATE.step[STATE.model];
  const accepted = steps.accepted[at], n = model.n;
  tell("threshold", steps.threshold[at], steps.threshold_text[at]);
  tell("coverage", steps.coverage[at], asShare(steps.coverage[at]));
  tell("risk", steps.risk[at], asRisk(steps.risk[at]));
  const low = steps.low[at], high = steps.high[at];
  byId("bound").dataset.low = String(low);
  byId("bound").dataset.high = String(high);
  byId("bound").textContent = high === null || low === null ? "without limits" : `${DATA.level} limits ${asRisk(low)} to ${asRisk(high)}`;
  tell("accepted", accepted, asCount(accepted));
  tell("rejected", n - accepted, asCount(n - accepted));
  byId("wrong").textContent = DATA.zero_one ? `${asCount(Math.round(steps.loss[at]))} of them wrong` : "";
  byId("wrong").dataset.value = String(steps.loss[at]);
  const told = `threshold ${steps.threshold_text[at]}, coverage ${asShare(steps.coverage[at])}, risk ${asRisk(steps.risk[at])}`;
  byId("slider").setAttribute("aria-valuetext", told);
  clearTimeout(announcing);
  announcing = setTimeout(() => { byId("announced").textContent = `${model.name}: ${told}`; }, 400);
  steps.parts.forEach((part, k) => showPart(part, k, at));
  document.querySelectorAll(".part").forEach((card, k) => { card.hidden = k >= steps.parts.length; });
}

// accepted samples by group: rows are sorted, worst first; the last row adds up the groups that are not shown

const UNFOLDED = 10; // rows that are shown at first (report/slider.py), unless only one or two would be left out
const isFolded = (part, k) => !STATE.unfolded.has(k) && part.listed[0].length > UNFOLDED + 2;

function partRows(part, k, at) {
  const folded = isFolded(part, k), shown = folded ? part.listed[at].slice(0, UNFOLDED) : part.listed[at];
  const rows = shown.map((place, j) => ({
    name: part.names[place], total: part.totals[place], yes: part.accepted[at][j], loss: part.loss[at][j],
    risk: part.risk[at][j], low: part.low[at][j], high: part.high[at][j],
  }));
  const left = part.groups - rows.length, [total, yes, loss, risk] = (folded ? part.folded : part.unlisted)[at];
  return left ? [...rows, { name: left === 1 ? "1 other" : `${asCount(left)} others together`, total, yes, loss, risk, low: null, high: null }] : rows;
}

function showPart(part, k, at) {
  const body = byId(`part-${k}`), rows = partRows(part, k, at), fold = byId(`unfold-${k}`), listed = part.listed[at].length;
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((r, j) => {
    const row = body.rows[j] || newRow(body), [name, risk, , share, yes, left, wrong] = row.cells, answered = r.total ? r.yes / r.total : 0;
    name.textContent = shortened(r.name, 40);
    name.title = r.name;
    risk.querySelector("b").textContent = r.risk === null ? "–" : asRisk(r.risk);
    risk.querySelector("span").textContent = r.risk === null || r.low === null ? "" : `${asRisk(r.low)} to ${asRisk(r.high)}`;
    row.querySelector("i").style.width = `${100 * answered}%`;
    share.textContent = r.total ? asShare(answered) : "–";
    yes.textContent = asCount(r.yes);
    left.textContent = asCount(r.total - r.yes);
    wrong.textContent = DATA.zero_one ? asCount(Math.round(r.loss)) : "";
    setCsv(name, r.name);
    setCsv(risk, r.risk, r.risk === null ? "" : r.low, r.risk === null ? "" : r.high);
    setCsv(row.cells[2]);
    setCsv(share, r.total ? answered.toPrecision(6) : "");
    setCsv(yes, r.yes);
    setCsv(left, r.total - r.yes);
    setCsv(wrong, r.loss);
  });
  const sums = (isFolded(part, k) ? part.folded : part.unlisted)[at], shown = rows.length - 1;
  const all = part.groups > shown + 1 ? `. The ${shown} worst of ${asCount(part.groups)} are shown; the last row adds up the others, with ${countNoun(sums[0], "sample")}` : "";
  body.parentNode.caption.firstElementChild.textContent = `By ${part.by}, at the threshold above, worst first, by the lower of the ${DATA.level} limits${all}`;
  fold.hidden = part.listed[0].length <= UNFOLDED + 2;
  fold.textContent = isFolded(part, k) ? `Show ${listed - UNFOLDED} more` : `Show the ${UNFOLDED} worst only`;
  fold.setAttribute("aria-expanded", String(!isFolded(part, k)));
  fold.onclick = () => {
    STATE.unfolded.has(k) ? STATE.unfolded.delete(k) : STATE.unfolded.add(k);
    showPart(part, k, at);
  };
}

function newRow(body) {
  const row = body.insertRow();
  ["", "num", "wide", "num", "num", "num left", "num"].forEach((name) => { row.insertCell().className = name; });
  const bar = Object.assign(document.createElement("div"), { className: "bar" });
  bar.appendChild(document.createElement("i"));
  row.cells[2].appendChild(bar);
  row.cells[1].append(document.createElement("b"), Object.assign(document.createElement("span"), { className: "span" }));
  return row;
}

function chooseModel(k) {
  STATE.model = k;
  byId("slider").max = DATA.models[k].steps.threshold.length - 1;
  byId("slider").value = STATE.step[k];
  document.querySelectorAll("select[data-choose]").forEach((s) => { s.value = String(k); });
  showRule();
  showStep();
  drawCurves();
  drawReliability();
}

function moveTo(at) {
  STATE.step[STATE.model] = at;
  STATE.tried.add(STATE.model);
  showStep();
  drawCurves();
}

function jump(share) {
  const covered = DATA.models[STATE.model].steps.coverage;
  let at = covered.findIndex((c) => c >= share - 1e-9);
  if (at < 0) at = covered.length - 1;
  byId("slider").value = at;
  moveTo(at);
}

function paintKeys() { // a sample of the model's line: colour and dashes
  document.querySelectorAll("svg.key").forEach((svg) => {
    const k = Number(svg.dataset.k);
    svg.replaceChildren();
    element(svg, "line", { x1: 0, x2: 26, y1: 5, y2: 5, stroke: ink(k), "stroke-width": 3, "stroke-dasharray": dashes(k) });
  });
}

function pressed(button, state) { button.setAttribute("aria-pressed", String(state)); }

function start() {
  byId("asked").addEventListener("input", (event) => askFor(Number(event.target.value)));
  byId("save-rule").addEventListener("click", saveRule);
  byId("slider").addEventListener("input", (event) => moveTo(Number(event.target.value)));
  document.querySelectorAll("select[data-choose]").forEach((s) => s.addEventListener("change", (event) => chooseModel(Number(event.target.value))));
  document.querySelectorAll("[data-jump]").forEach((b) => b.addEventListener("click", () => jump(Number(b.dataset.jump))));
  document.querySelectorAll("[data-view]").forEach((b) => b.addEventListener("click", () => {
    STATE.view = b.dataset.view;
    document.querySelectorAll("[data-view]").forEach((o) => pressed(o, o === b));
    drawCurves();
  }));
  document.querySelectorAll("[data-model]").forEach((b) => b.addEventListener("click", () => {
    const k = Number(b.dataset.model);
    STATE.hidden.has(k) ? STATE.hidden.delete(k) : STATE.hidden.add(k);
    pressed(b, !STATE.hidden.has(k));
    drawCurves();
  }));
  ["bands", "log"].forEach((what) => byId(what).addEventListener("click", () => {
    STATE[what] = !STATE[what];
    pressed(byId(what), STATE[what]);
    drawCurves();
  }));
  pressed(byId("log"), STATE.log);
  addSaving();
  chooseModel(DATA.best);
  addScrolling();
  return addThemes(() => { paintKeys(); drawAll(); });
}
const setTheme = start();
