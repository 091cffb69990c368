"use strict";
const DATA = JSON.parse(byId("data").textContent);
const STATE = { log: Boolean(DATA.log) };
const plain = (x) => Number(x.toPrecision(3)).toString();
const asRisk = (x) => DATA.zero_one ? `${plain(100 * x)}%` : plain(x);

// cost against risk: the cascade with its band, each model alone, a coin between the models, and the decision

function lines() {
  const curve = DATA.curve;
  return [
    { name: "cascade", k: 0, x: curve.risk, y: curve.cost },
    ...curve.alone.map((stage, k) => ({ name: `${stage.name} alone`, k: k + 1, x: curve.risk, y: stage.cost })),
    { name: "a coin tossed between the models", k: null, x: curve.coin.risk, y: curve.coin.cost },
  ];
}

function costs(saved = false, small = false) {
  const curve = DATA.curve, cost = `cost of a case${DATA.unit ? `, ${DATA.unit}` : ""}`;
  const marks = [{ kind: "area", x: curve.risk, low: curve.low, high: curve.high, k: 0 }];
  lines().forEach((line) => marks.push({
    kind: "line", x: line.x, y: line.y, k: line.k, name: line.name, straight: true, faint: line.k !== 0,
    tell: (x, y) => [line.name, `risk ${asRisk(x)}`, `cost ${plain(y)}`],
  }));
  if (DATA.chosen) {
    const [risk, chosenCost] = DATA.chosen;
    marks.push({ kind: "point", x: risk, y: chosenCost, k: 0, r: 7, tell: () => ["the decision", `risk at most ${asRisk(risk)}, promised`, `cost ${plain(chosenCost)}`] });
  }
  const ys = marks.flatMap((m) => m.kind === "area" ? m.high : m.y), xs = marks.flatMap((m) => m.x), positive = ys.filter((y) => y > 0);
  const high = Math.max(1e-9, ...ys) * 1.04, room = 0.03 * (Math.max(...xs) - Math.min(...xs) || 1);
  return {
    title: "Cost against risk", about: "The table below the figure holds the numbers.", above: cost + (STATE.log ? " (log scale)" : ""),
    height: small ? 280 : 400, x: { title: DATA.zero_one ? "error rate" : "mean loss", low: Math.max(0, Math.min(...xs) - room), high: Math.max(...xs) + room, format: asRisk, spacing: 70 },
    y: { low: STATE.log ? Math.min(...positive, high / 10) / 1.2 : 0, high, log: STATE.log, format: plain, spacing: 48 },
    marks, legend: saved ? lines().map(({ name, k }) => ({ name, k })) : [],
  };
}

function draw() {
  if (!DATA.curve) return;
  place("cost-chart", costs);
  byId("lines").replaceChildren(...lines().map((line) => {
    const chip = Object.assign(document.createElement("span"), { className: "chip" });
    const svg = element(chip, "svg", { class: "key", width: 26, height: 10, "aria-hidden": "true" });
    element(svg, "line", { x1: 0, x2: 26, y1: 5, y2: 5, stroke: ink(line.k), "stroke-width": 3, "stroke-dasharray": dashes(line.k) });
    chip.append(line.name);
    return chip;
  }));
}

function start() {
  byId("save-rule").hidden = !DATA.rule;
  byId("save-rule").addEventListener("click", () => save("rule.json", new Blob([DATA.rule], { type: "application/json" })));
  byId("log").setAttribute("aria-pressed", String(STATE.log));
  byId("log").addEventListener("click", () => {
    STATE.log = !STATE.log;
    byId("log").setAttribute("aria-pressed", String(STATE.log));
    draw();
  });
  addSaving();
  addScrolling();
  addThemes(draw);
}
start();
