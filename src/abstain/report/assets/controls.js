"use strict";
const asShare = (x, digits = 1) => x > 0 && x < Math.pow(10, -digits - 2) ? (100 * x).toPrecision(2) + "%" : (100 * x).toFixed(digits) + "%";
const asRisk = (x) => DATA.zero_one ? asShare(x, 2) : Number(x.toPrecision(4)).toString();
const asCount = (x) => x.toLocaleString("en-US");

function tell(id, value, text) {
  const place = byId(id);
  place.textContent = text;
  place.dataset.value = String(value);
}

function showStep() {
  const model = DATA.models[STATE.model], steps = model.steps, at = STATE.step[STATE.model];
  const accepted = steps.accepted[at], n = model.n;
  tell("threshold", steps.threshold[at], steps.shown[at]);
  tell("coverage", steps.coverage[at], asShare(steps.coverage[at]));
  tell("risk", steps.risk[at], asRisk(steps.risk[at]));
  const low = steps.low[at], high = steps.high[at];
  byId("bound").dataset.low = String(low);
  byId("bound").dataset.high = String(high);
  byId("bound").textContent = high === null || low === null ? "no limits for this loss" : `${DATA.level} limits ${asRisk(low)} to ${asRisk(high)}`;
  tell("accepted", accepted, asCount(accepted));
  tell("rejected", n - accepted, asCount(n - accepted));
  byId("wrong").textContent = DATA.zero_one ? `${asCount(Math.round(steps.loss[at]))} of them wrong` : "";
  byId("wrong").dataset.value = String(steps.loss[at]);
  byId("slider").setAttribute("aria-valuetext", `threshold ${steps.shown[at]}, coverage ${asShare(steps.coverage[at])}, risk ${asRisk(steps.risk[at])}`);
  showClasses(steps, at);
}

function showClasses(steps, at) {
  const body = byId("classes");
  if (!body) return;
  byId("classes-card").hidden = steps.classes.length === 0;
  while (body.rows.length > steps.classes.length) body.deleteRow(-1);
  steps.classes.forEach((name, k) => {
    const row = body.rows[k] || newRow(body);
    const total = steps.class_totals[k], yes = steps.by_class[at][k];
    row.cells[0].textContent = name;
    row.querySelector("i").style.width = `${total ? (100 * yes) / total : 0}%`;
    row.cells[2].textContent = total ? asShare(yes / total) : "–";
    row.cells[3].textContent = asCount(yes);
    row.cells[4].textContent = asCount(total - yes);
  });
  byId("classes-by").textContent = steps.by;
}

function newRow(body) {
  const row = body.insertRow();
  for (let k = 0; k < 5; k++) row.insertCell().className = k > 1 ? "num" : k === 1 ? "wide" : "";
  const bar = document.createElement("div");
  bar.className = "bar";
  bar.appendChild(document.createElement("i"));
  row.cells[1].appendChild(bar);
  return row;
}

function chooseModel(k) {
  STATE.model = k;
  const slider = byId("slider");
  slider.max = DATA.models[k].steps.threshold.length - 1;
  slider.value = STATE.step[k];
  showStep();
  drawCurves();
}

function moveTo(at) {
  STATE.step[STATE.model] = at;
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

function setTheme(theme, keep) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Switch to the ${theme === "dark" ? "light" : "dark"} theme`);
  paintDots();
  drawAll();
  try { if (keep) localStorage.setItem("abstain-theme", theme); } catch (error) { /* a page opened from disk may not store */ }
}

function paintDots() {
  document.querySelectorAll(".dot").forEach((dot) => {
    const k = Number(dot.dataset.k);
    dot.style.background = k < 8 ? ink(k) : "transparent"; // colours repeat after eight: the others are rings, and dashed
    dot.style.boxShadow = `inset 0 0 0 3px ${ink(k)}`;
  });
}

function start() {
  const asked = () => { try { return localStorage.getItem("abstain-theme"); } catch (error) { return null; } };
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true));
  byId("slider").addEventListener("input", (event) => moveTo(Number(event.target.value)));
  if (byId("model")) byId("model").addEventListener("change", (event) => chooseModel(Number(event.target.value)));
  document.querySelectorAll("[data-jump]").forEach((b) => b.addEventListener("click", () => jump(Number(b.dataset.jump))));
  document.querySelectorAll("[data-view]").forEach((b) => b.addEventListener("click", () => {
    STATE.view = b.dataset.view;
    document.querySelectorAll("[data-view]").forEach((o) => o.setAttribute("aria-pressed", String(o === b)));
    drawCurves();
  }));
  document.querySelectorAll("[data-model]").forEach((b) => b.addEventListener("click", () => {
    const k = Number(b.dataset.model);
    STATE.hidden.has(k) ? STATE.hidden.delete(k) : STATE.hidden.add(k);
    b.setAttribute("aria-pressed", String(!STATE.hidden.has(k)));
    drawCurves();
  }));
  byId("bands").addEventListener("click", () => {
    STATE.bands = !STATE.bands;
    byId("bands").setAttribute("aria-pressed", String(STATE.bands));
    drawCurves();
  });
  let before = null;
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    document.querySelectorAll("details").forEach((d) => { d.open = true; });
    setTheme("light", false);
  });
  addEventListener("afterprint", () => { if (before) setTheme(before, false); });
  if (byId("model")) byId("model").value = String(DATA.best);
  chooseModel(DATA.best);
  setTheme(asked() || system, false);
}
start();
