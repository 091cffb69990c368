"use strict";
// Figures as plain SVG: what is drawn is what is printed and saved. A figure is axes and a list of marks.
const byId = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const ink = (k) => k === null ? colour("--rest") : colour("--c" + (k % 8)); // null: a model that is not selected
// no two of the first 32 curves share both colour and dashes, and neighbours never share the dashes
const dashes = (k) => k === null ? "" : ["", "8 4", "2 3", "11 3 2 3"][(k + Math.floor(k / 8)) % 4];
const countNoun = (count, noun) => `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;
const shortened = (text, longest) => text.length > longest ? text.slice(0, longest - 1) + "…" : text;

function element(parent, name, attributes = {}, text = null) {
  const made = document.createElementNS(byId("namespace").namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== "") made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  parent.appendChild(made);
  return made;
}

// ticks and scales

function roundTicks(low, high, about) {
  const raw = (high - low) / about, power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
    for (const m of high / low > 2000 ? [1] : [1, 2, 5]) ticks.push(Number(`${m}e${e}`));
  return ticks.filter((t) => t >= low * 0.999 && t <= high * 1.001);
}

function scaleOf(axis, from, to) {
  const turn = axis.log ? Math.log : (v) => v;
  const low = turn(axis.low), high = turn(axis.high);
  const place = (v) => from + (to - from) * (turn(axis.log ? Math.max(v, axis.low) : v) - low) / (high - low || 1);
  const about = Math.max(2, Math.abs(to - from) / (axis.spacing || 70));
  const between = (count) => axis.log ? logTicks(axis.low, axis.high) : roundTicks(axis.low, axis.high, count);
  let ticks = axis.rows ? [] : between(about);
  if (!axis.rows && ticks.length < 2) ticks = between(2 * about); // one tick gives no scale
  if (axis.log && ticks.length < 2) ticks = roundTicks(axis.low, axis.high, 3);
  return { place, ticks };
}

// one figure: spec = {title, about, height, x, y, marks, legend}; an axis has low, high, log, title, format, or rows:
// names to the left of the marks; {head: name} is a heading of the rows that follow it

function drawFigure(svg, spec, width) {
  const longest = width < 520 ? 20 : 44, names = spec.y.rows || [];
  const named = Math.max(0, ...names.filter((n) => !n.head).map((n) => Math.min(n.length, longest)));
  const left = names.length ? 16 + 7.2 * named : 58, right = 22, bottom = 46;
  const legend = (spec.legend || []).map((entry) => ({ ...entry, text: shortened(entry.name, Math.min(40, Math.floor((width - left - 40) / 7.2))) }));
  let rows = 0, along = left;
  legend.forEach((entry) => {
    const wide = 34 + 7.2 * entry.text.length;
    if (along + wide > width && along > left) { rows += 1; along = left; }
    [entry.x, entry.row] = [along, rows];
    along += wide;
  });
  const top = 10 + (spec.above ? 18 : 0) + (legend.length ? 20 * (rows + 1) : 0);
  const height = spec.height + top - 10;
  svg.replaceChildren();
  const font = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  const settings = { viewBox: `0 0 ${width} ${height}`, width, height, "font-family": font, "font-size": 12, role: "img" };
  for (const [key, value] of Object.entries(settings)) svg.setAttribute(key, value);
  element(svg, "title", {}, spec.title);
  element(svg, "desc", {}, spec.about);
  if (spec.ground) element(svg, "rect", { width, height, fill: spec.ground });
  const x = scaleOf(spec.x, left, width - right), y = scaleOf(spec.y, height - bottom, top);
  const line = colour("--line"), soft = colour("--soft"), text = { fill: soft };
  legend.forEach((entry) => {
    const at = 14 + (spec.above ? 18 : 0) + 20 * entry.row;
    element(svg, "line", { x1: entry.x, x2: entry.x + 20, y1: at, y2: at, stroke: ink(entry.k), "stroke-width": 2.5, "stroke-dasharray": dashes(entry.k) });
    element(svg, "text", { ...text, x: entry.x + 26, y: at + 4 }, entry.text);
  });
  if (spec.above) element(svg, "text", { ...text, x: 4, y: 14 }, spec.above);
  x.ticks.forEach((t) => {
    element(svg, "line", { x1: x.place(t), x2: x.place(t), y1: top, y2: height - bottom, stroke: line });
    element(svg, "text", { ...text, x: x.place(t), y: height - bottom + 17, "text-anchor": "middle" }, spec.x.format(t));
  });
  y.ticks.forEach((t) => {
    element(svg, "line", { x1: left, x2: width - right, y1: y.place(t), y2: y.place(t), stroke: line });
    element(svg, "text", { ...text, x: left - 8, y: y.place(t) + 4, "text-anchor": "end" }, spec.y.format(t));
  });
  names.forEach((name, k) => {
    const beside = { ...text, x: left - 10, y: y.place(k) + 4, "text-anchor": "end" };
    const above = { x: 4, y: y.place(k) + 4, fill: colour("--ink"), "font-weight": 600, stroke: colour("--card"), "stroke-width": 4, "paint-order": "stroke" };
    const label = name.head ? element(svg, "text", above, shortened(name.head, Math.floor((width - 8) / 7.2))) : element(svg, "text", beside, shortened(name, longest));
    element(label, "title", {}, name.whole || name.head || name);
  });
  const wide = 6.6 * spec.x.title.length > width - left - right; // a long title ends where the axis ends
  element(svg, "text", { ...text, x: wide ? width - 4 : (left + width - right) / 2, y: height - 8, "text-anchor": wide ? "end" : "middle" }, spec.x.title);
  const inside = element(svg, "svg", { x: left - 8, y: top - 8, width: width - left - right + 16, height: height - top - bottom + 16, viewBox: `${left - 8} ${top - 8} ${width - left - right + 16} ${height - top - bottom + 16}` });
  spec.marks.forEach((mark) => MARKS[mark.kind](inside, mark, x.place, y.place));
  svg.placed = { x: x.place, y: y.place, marks: spec.marks };
}

const trace = (xs, ys, px, py) => xs.map((v, i) => `${i ? "L" : "M"}${px(v).toFixed(1)} ${py(ys[i]).toFixed(1)}`).join("");
// samples of equal confidence are accepted together, so a curve with few thresholds is a staircase
const stairs = (xs, ys, px, py) => xs.map((v, i) => i ? `V${py(ys[i]).toFixed(1)}H${px(v).toFixed(1)}` : `M${px(v).toFixed(1)} ${py(ys[i]).toFixed(1)}`).join("");

const MARKS = {
  area(svg, m, px, py) {
    const back = trace(m.x.slice().reverse(), m.low.slice().reverse(), px, py).replace("M", "L");
    element(svg, "path", { class: "area", d: trace(m.x, m.high, px, py) + back + "Z", fill: ink(m.k), "fill-opacity": 0.15 });
  },
  line(svg, m, px, py) {
    const path = (m.x.length > 60 || m.straight ? trace : stairs)(m.x, m.y, px, py);
    element(svg, "path", { class: "line", d: path, fill: "none", stroke: ink(m.k), "stroke-width": m.faint ? 1.3 : 2.2, "stroke-opacity": m.faint ? 0.55 : 1, "stroke-dasharray": dashes(m.k), "stroke-linejoin": "round" });
    if (m.x.length <= 60 && !m.faint && !m.straight) m.x.forEach((v, i) => element(svg, "circle", { cx: px(v), cy: py(m.y[i]), r: 2.6, fill: ink(m.k) }));
  },
  level(svg, m, px, py) { // a horizontal line across the figure, named at its left end
    const y = py(m.y), box = svg.viewBox.baseVal, left = box.x + 8, right = box.x + box.width - 8;
    if (y < box.y || y > box.y + box.height) return;
    element(svg, "path", { class: "level", d: `M${left} ${y}H${right}`, stroke: colour("--ink"), "stroke-width": 1.2, "stroke-dasharray": "3 3" });
    element(svg, "text", { x: left + 4, y: y - 5, fill: colour("--ink"), stroke: colour("--card"), "stroke-width": 3, "paint-order": "stroke" }, m.text);
  },
  bar(svg, m, px, py) { // limits of a value, upright
    const x = px(m.x);
    element(svg, "path", { class: "span-mark", d: `M${x - 4} ${py(m.low)}H${x + 4}M${x} ${py(m.low)}V${py(m.high)}M${x - 4} ${py(m.high)}H${x + 4}`, fill: "none", stroke: ink(m.k), "stroke-width": 1.6 });
  },
  span(svg, m, px, py) {
    const low = px(m.low), high = px(m.high), y = py(m.y), end = 5.5; // taller than the dot, so that short intervals stay visible
    element(svg, "path", { class: "span-mark", d: `M${low} ${y - end}V${y + end}M${low} ${y}H${high}M${high} ${y - end}V${y + end}`, fill: "none", stroke: ink(m.k), "stroke-width": 1.8 });
  },
  point(svg, m, px, py) {
    element(svg, "circle", { class: "point", cx: px(m.x), cy: py(m.y), r: m.r || 4.5, fill: m.open ? colour("--card") : ink(m.k), stroke: m.open ? ink(m.k) : colour("--card"), "stroke-width": m.open ? 2 : 1 });
  },
};

// on the page: drawn at the available width, again when that changes; the pointer shows the nearest point

const FIGURES = {};

function place(id, spec) {
  const svg = byId(id), holder = svg.parentNode;
  if (!(id in FIGURES)) {
    new ResizeObserver(() => drawn(id)).observe(holder);
    addPointer(svg, holder);
  }
  FIGURES[id] = spec;
  drawn(id);
}

const PAPER = 660; // width of a figure on paper in pixels of 1/96 inch: drawn at that size, its text is not scaled down
let onPaper = false;

function drawn(id) {
  const width = onPaper ? Number(byId(id).dataset.paper || PAPER) : Math.max(280, Math.round(byId(id).parentNode.clientWidth));
  drawFigure(byId(id), FIGURES[id](false, width < 520), width);
}

function nearest(svg, left, top) {
  let best = null;
  svg.placed.marks.filter((m) => m.tell).forEach((m) => {
    const xs = Array.isArray(m.x) ? m.x : [m.x], ys = Array.isArray(m.y) ? m.y : [m.y];
    xs.forEach((v, i) => {
      const dx = svg.placed.x(v) - left, dy = svg.placed.y(ys[i]) - top, far = dx * dx + dy * dy;
      if (!best || far < best.far) best = { far, left: left + dx, top: top + dy, lines: m.tell(v, ys[i]) };
    });
  });
  return best && best.far < 1600 ? best : null;
}

function addPointer(svg, holder) {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  holder.appendChild(tip);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), found = nearest(svg, event.clientX - box.left, event.clientY - box.top);
    tip.hidden = !found;
    if (!found) return;
    tip.replaceChildren(...found.lines.map((line) => Object.assign(document.createElement("div"), { textContent: line })));
    tip.style.left = `${Math.max(0, Math.min(found.left + 12, holder.clientWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(0, found.top - tip.offsetHeight - 12)}px`;
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
}

// saving: figures as SVG and PNG, tables as CSV

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function saveFigure(id, kind) {
  const svg = byId("namespace").cloneNode(false), width = 760;
  svg.removeAttribute("id");
  svg.removeAttribute("hidden");
  drawFigure(svg, { ...FIGURES[id](true), ground: colour("--card") }, width);
  const blob = new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
  if (kind === "svg") return save(`${id}.svg`, blob);
  const image = new Image(), height = Number(svg.getAttribute("height"));
  image.onload = () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    canvas.toBlob((png) => save(`${id}.png`, png), "image/png");
    URL.revokeObjectURL(image.src);
  };
  image.src = URL.createObjectURL(blob);
}

// a cell that a spreadsheet would take for a formula gets an apostrophe
const csvCell = (text) => {
  const flat = text.trim().replace(/\s*\n\s*/g, " "), tame = /^[=+\-@\t]/.test(flat) && isNaN(Number(flat.replace(/[%,]/g, ""))) ? "'" + flat : flat;
  return /[",\n]/.test(tame) ? `"${tame.replace(/"/g, '""')}"` : tame;
};

// what a cell holds in a file: one column or several (a value and its limits), else the text on the screen
const csvOf = (cell) => cell.dataset.csv === undefined ? [cell.innerText] : JSON.parse(cell.dataset.csv);
const setCsv = (cell, ...columns) => { cell.dataset.csv = JSON.stringify(columns.map((c) => c === null || c === undefined ? "" : String(c))); };

function csvLines(table) {
  const rows = [...table.rows].map((row) => [...row.cells].map(csvOf));
  const widths = (rows[0] || []).map((columns) => columns.length); // as the head has them
  return rows.map((row) => row.flatMap((columns, k) => [...columns, ...Array(Math.max(0, widths[k] - columns.length)).fill("")]).map(csvCell).join(","));
}

function saveTable(table) {
  const caption = table.caption ? table.caption.textContent : "table";
  save(`${caption.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60) || "table"}.csv`, new Blob([csvLines(table).join("\r\n") + "\r\n"], { type: "text/csv" }));
}

// a table wider than the screen says so, and can be scrolled by keyboard: it is reached by Tab, and only then

function addScrolling() {
  const check = (box) => {
    box.toggleAttribute("data-more", box.scrollWidth > box.clientWidth + 1);
    const scrolls = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
    const caption = box.querySelector("caption"), label = caption ? caption.textContent.trim() : "Table";
    if (!scrolls) return ["tabindex", "role", "aria-label"].forEach((name) => box.removeAttribute(name));
    box.setAttribute("tabindex", "0");
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", label);
  };
  document.querySelectorAll(".scroll").forEach((box) => {
    const watch = new ResizeObserver(() => check(box));
    watch.observe(box);
    box.querySelectorAll("table").forEach((table) => watch.observe(table));
    check(box);
  });
}

function addSaving() {
  const button = (text, label, act) => {
    const made = Object.assign(document.createElement("button"), { type: "button", textContent: text, onclick: act });
    made.setAttribute("aria-label", label);
    return made;
  };
  const row = (...buttons) => {
    const made = Object.assign(document.createElement("div"), { className: "saving" });
    made.append(...buttons);
    return made;
  };
  document.querySelectorAll("svg[data-figure]").forEach((svg) => {
    const buttons = ["svg", "png"].map((kind) => button(kind.toUpperCase(), `Save this figure as ${kind.toUpperCase()}`, () => saveFigure(svg.id, kind)));
    svg.parentNode.after(row(...buttons));
  });
  document.querySelectorAll("table").forEach((table) => {
    const what = table.caption ? table.caption.textContent : "this table";
    (table.closest(".scroll") || table).after(row(button("CSV", `Save as CSV: ${what}`, () => saveTable(table))));
  });
}

// light or dark, by the system's setting or the button; print is light

function addThemes(redraw) {
  const set = (theme, keep) => {
    document.documentElement.dataset.theme = theme;
    byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
    byId("theme").setAttribute("aria-label", `${byId("theme").textContent}: switch the theme`);
    redraw();
    try { if (keep) localStorage.setItem("abstain-theme", theme); } catch (error) { /* a page opened from disk may not store */ }
  };
  const now = () => document.documentElement.dataset.theme;
  const asked = () => { try { return localStorage.getItem("abstain-theme"); } catch (error) { return null; } };
  byId("theme").addEventListener("click", () => set(now() === "dark" ? "light" : "dark", true));
  let before = null, opened = [];
  addEventListener("beforeprint", () => {
    before = now();
    onPaper = true;
    opened = [...document.querySelectorAll("details:not(.long):not([open])")];
    opened.forEach((d) => { d.open = true; });
    set("light", false);
  });
  addEventListener("afterprint", () => {
    onPaper = false;
    opened.forEach((d) => { d.open = false; });
    if (before) set(before, false);
  });
  set(asked() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"), false);
  return set;
}
