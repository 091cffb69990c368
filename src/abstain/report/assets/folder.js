"use strict";
const DATA = JSON.parse(byId("data").textContent);
const asShare = (x) => `${Number((100 * x).toPrecision(3))}%`;

// accuracy of every model, task by task

function accuracies() {
  const rows = DATA.tasks.flatMap((t) => [{ head: t.task }, ...t.models]).reverse(), marks = [];
  rows.forEach((r, y) => {
    if (r.head) return;
    if (r.low !== null) marks.push({ kind: "span", low: r.low, high: r.high, y, k: 0 });
    marks.push({ kind: "point", x: r.estimate, y, k: 0, tell: () => [r.name, `accuracy ${asShare(r.estimate)}`, r.low === null ? "no interval" : `${DATA.level} interval ${asShare(r.low)} to ${asShare(r.high)}`] });
  });
  return {
    title: `Accuracy with ${DATA.level} intervals`, about: "The tables above hold the numbers.", height: 66 + 24 * rows.length,
    x: { title: `accuracy with ${DATA.level} interval, higher is better`, low: 0, high: 1, format: asShare },
    y: { low: -0.6, high: rows.length - 0.4, rows: rows.map((r) => r.head ? r : r.short) }, marks, legend: [],
  };
}

function start() {
  addSaving();
  addScrolling();
  addThemes(() => place("accuracies", accuracies));
}
start();
