"use strict";
const DATA = JSON.parse(byId("data").textContent);
const STATE = { picked: 0, sort: "rank", down: false, find: "" };
const three = (x) => x === null || x === undefined ? "–" : Number(x.toPrecision(3)).toString();
const percent = (x) => x === null || x === undefined ? "–" : (100 * x).toFixed(1) + "%";
const aligned = (places) => (x) => x === null || x === undefined ? "–" : x.toFixed(places).replace(/^-(0\.?0*)$/, "$1"); // no -0.0000

// the same number of digits in a whole column: three decimals, fewer where numbers are large, none of this where all are tiny
function inColumn(j) {
  const sizes = DATA.models.map((m) => Math.abs(m.more[j] ?? 0)), most = Math.max(...sizes);
  return most < 0.01 ? three : aligned(most >= 100 ? 1 : most >= 10 ? 2 : 3);
}

// columns: a title, a value to sort by, a text to show

// and what a file holds: one column or several
const COLUMNS = [
  { title: "rank", value: (m, k) => k, text: (m) => m.rank[0] === m.rank[1] ? `${m.rank[0]}` : `${m.rank[0]}–${m.rank[1]}`, titles: ["rank low", "rank high"], csv: (m) => m.rank },
  { title: "model", value: (m) => m.name.toLowerCase(), text: (m) => m.name },
  { title: DATA.label, value: (m) => m.estimate, text: (m) => aligned(4)(m.estimate), csv: (m) => [m.estimate] },
  { title: "interval", value: (m) => m.low, text: (m) => m.low === null ? "–" : `${aligned(4)(m.low)} to ${aligned(4)(m.high)}`, titles: [`${DATA.label} low`, `${DATA.label} high`], csv: (m) => [m.low, m.high] },
  ...DATA.columns.map((name, j) => ({ title: name, value: (m) => m.more[j], text: (m) => name.endsWith("%") ? percent(m.more[j]) : inColumn(j)(m.more[j]), csv: (m) => [name.endsWith("%") && m.more[j] !== null ? 100 * m.more[j] : m.more[j]] })),
  { title: "letters", value: (m) => m.letters, text: (m) => m.letters },
];

function order() {
  const column = COLUMNS.find((c) => c.title === STATE.sort), sign = STATE.down ? -1 : 1;
  const wanted = STATE.find.toLowerCase();
  const places = DATA.models.map((_, k) => k).filter((k) => DATA.models[k].name.toLowerCase().includes(wanted));
  const known = (v) => v !== null && v !== undefined;
  return places.sort((a, b) => {
    const x = column.value(DATA.models[a], a), y = column.value(DATA.models[b], b);
    if (known(x) !== known(y)) return known(x) ? -1 : 1; // missing values come last in either order
    return sign * (x < y ? -1 : x > y ? 1 : 0) || a - b;
  });
}

function showHead() {
  byId("head").replaceChildren(...COLUMNS.map((c, j) => {
    const cell = Object.assign(document.createElement("th"), { scope: "col", className: j === 1 || j === COLUMNS.length - 1 ? "" : "num" });
    const button = Object.assign(document.createElement("button"), { type: "button", className: "sort", textContent: c.title + (STATE.sort === c.title ? (STATE.down ? " ▼" : " ▲") : "") });
    setCsv(cell, ...(c.titles || [c.title]));
    cell.setAttribute("aria-sort", STATE.sort !== c.title ? "none" : STATE.down ? "descending" : "ascending");
    button.onclick = () => {
      [STATE.down, STATE.sort] = [STATE.sort === c.title ? !STATE.down : false, c.title];
      showHead();
      showRows();
      byId("head").querySelectorAll("button")[j].focus();
    };
    cell.appendChild(button);
    return cell;
  }));
}

function showRows() {
  const places = order();
  byId("found").textContent = STATE.find ? `${places.length} of ${DATA.models.length}` : "";
  byId("rows").replaceChildren(...places.map((k) => {
    const row = document.createElement("tr"), model = DATA.models[k];
    row.className = k === STATE.picked ? "picked" : "";
    COLUMNS.forEach((c, j) => {
      const cell = row.insertCell();
      cell.className = j === 1 || j === COLUMNS.length - 1 ? "" : "num";
      setCsv(cell, ...(c.csv ? c.csv(model) : [c.text(model)]));
      if (j !== 1) { cell.textContent = shortened(c.text(model), 24); cell.title = c.text(model); return; }
      const button = Object.assign(document.createElement("button"), { type: "button", className: "name", title: model.name, onclick: () => pick(k) });
      for (const part of model.short.split(/(?<=[\/_ -])/)) button.append(part, document.createElement("wbr")); // lines end after a mark
      button.setAttribute("aria-pressed", String(k === STATE.picked));
      cell.appendChild(button);
    });
    return row;
  }));
}

// the selected model

const equals = () => new Set(DATA.equal[STATE.picked]);

function curves(saved = false) {
  const some = DATA.models.map((m, k) => ({ m, k })).filter((e) => e.m.curve), marks = [];
  const mark = (e, chosen) => ({
    kind: "line", x: e.m.curve.coverage, y: e.m.curve.risk, k: chosen ? 0 : null, faint: !chosen, name: e.m.name,
    tell: (x, y) => [e.m.name, `coverage ${percent(x)}`, `risk ${three(y)}`],
  });
  some.filter((e) => e.k !== STATE.picked).forEach((e) => marks.push(mark(e, false)));
  some.filter((e) => e.k === STATE.picked).forEach((e) => marks.push(mark(e, true)));
  const high = Math.max(1e-9, ...marks.flatMap((m) => m.y)) * 1.04;
  return {
    title: "Selective risk against coverage", above: "selective risk of the answered", about: `${DATA.models[STATE.picked].name} and ${countNoun(some.length - 1, "other model")}.`,
    height: 380, x: { title: "coverage: share of all samples that is answered", low: 0, high: 1, format: (v) => `${Math.round(100 * v)}%`, spacing: 60 },
    y: { low: 0, high, format: three, spacing: 48 }, marks, legend: saved ? [{ name: DATA.models[STATE.picked].short, k: 0 }, { name: "the others", k: null }] : [],
  };
}

// selected, equal to the selected, or other: shown by shape and weight as well as by colour
function kindOf(place, same) {
  if (place === STATE.picked) return { k: 0, open: false, r: 5 };
  return same.has(place) ? { k: 1, open: true, r: 4 } : { k: null, open: false, r: 3 };
}

function forest(saved = false, small = false) {
  const same = equals(), rows = DATA.models.slice().reverse(), last = rows.length - 1, marks = [];
  rows.forEach((m, y) => {
    const kind = kindOf(last - y, same);
    if (m.low !== null) marks.push({ kind: "span", low: m.low, high: m.high, y, k: kind.k });
    marks.push({ kind: "point", x: m.estimate, y, ...kind, tell: () => [m.name, `${DATA.label} ${three(m.estimate)}`, m.low === null ? "no interval" : `${DATA.level} interval ${three(m.low)} to ${three(m.high)}`] });
  });
  const ends = DATA.models.flatMap((m) => [m.estimate, m.low, m.high]).filter((v) => v !== null);
  const least = Math.min(...ends), most = Math.max(...ends), log = least > 0 && most > 8 * least; // otherwise one outlier would compress all others
  const room = 0.04 * (most - least || 1);
  return {
    title: `${DATA.label} with ${DATA.level} intervals`, about: "The table above holds the numbers.", height: 66 + 20 * rows.length,
    x: { title: `${DATA.label} with ${DATA.level} interval${log ? ", log scale" : ""}, ${DATA.lower ? "lower" : "higher"} is better`, log, low: log ? least / 1.05 : least - room, high: log ? most * 1.05 : most + room, format: three },
    y: { low: -0.7, high: rows.length - 0.3, rows: rows.map((m) => small ? m.tiny : m.short) }, marks,
  };
}

function showGroups() {
  const place = byId("by-group"), table = place.querySelector("table"), body = table.tBodies[0];
  place.hidden = !DATA.groups.length;
  const values = DATA.groups.map((name, j) => {
    const all = DATA.models.map((m) => m.groups[j]).filter((v) => v !== null).map((v) => v[0]).sort((a, b) => a - b);
    const [own, low, high] = DATA.models[STATE.picked].groups[j] ?? [null, null, null]; // estimate and limits
    const better = all.filter((v) => own !== null && (DATA.lower ? v < own : v > own)).length;
    const limits = low === null ? "–" : `${aligned(4)(low)} to ${aligned(4)(high)}`;
    const badness = own === null ? -Infinity : DATA.lower ? (low ?? own) : -(high ?? own); // the limit that is closer to good
    return { name, own, limits, badness, middle: all[Math.floor(all.length / 2)], rank: own === null ? "–" : `${better + 1} of ${all.length}` };
  });
  values.sort((a, b) => a.badness === b.badness ? 0 : b.badness - a.badness);
  table.caption.firstElementChild.textContent = `${DATA.label} of ${DATA.models[STATE.picked].name} by group, the worst first by the ${DATA.lower ? "lower" : "upper"} limit`;
  body.replaceChildren();
  values.forEach((v) => {
    const row = body.insertRow();
    [v.name, aligned(4)(v.own), v.limits, aligned(4)(v.middle), v.rank].forEach((t, j) => Object.assign(row.insertCell(), { textContent: t, className: j ? "num" : "" }));
  });
}

function pick(k) {
  STATE.picked = k;
  byId("picked").value = String(k);
  const model = DATA.models[k], same = [...equals()].map((i) => DATA.models[i].name);
  const listed = same.slice(0, 8).join(", ") + (same.length > 8 ? ` and ${same.length - 8} more` : "");
  byId("told").textContent = `${model.name}: ${DATA.label} ${three(model.estimate)}, rank ${model.rank[0] === model.rank[1] ? model.rank[0] : `${model.rank[0]} to ${model.rank[1]}`} of ${DATA.models.length}. ${same.length ? `It cannot be told apart from ${listed}.` : "It can be told apart from every other model."}`;
  showRows();
  showGroups();
  draw();
}

function draw() {
  byId("board-curves").parentNode.hidden = !DATA.models.some((m) => m.curve);
  if (DATA.models.some((m) => m.curve)) place("board-curves", curves);
  place("board-forest", forest);
}

function start() {
  byId("picked").append(...DATA.models.map((m, k) => new Option(m.short, String(k))));
  byId("picked").addEventListener("change", (event) => pick(Number(event.target.value)));
  byId("board-forest").parentNode.classList.toggle("many", DATA.models.length > 110); // on one sheet of paper the names would be tiny
  byId("find").addEventListener("input", (event) => { STATE.find = event.target.value; showRows(); });
  showHead();
  pick(0);
  addSaving();
  addScrolling();
  addThemes(draw);
}
start();
