// The table of keyspaces, each with a small chart of its level and the marks drawn in.
import { el, grouped, lasting, short, write } from "./text.js";

const POINTS = 300;
const rows = new Map();
const body = document.getElementById("keyspaces-rows");
const find = document.getElementById("keyspaces-find");
const count = document.getElementById("keyspaces-count");

// Charts are drawn only for rows that can be seen.
const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const row = rows.get(target.dataset.name);
    if (row) { row.visible = isIntersecting; if (isIntersecting) draw(row); }
  }
}, { rootMargin: "100px" });

find.addEventListener("input", filter);

export function names() { return [...rows.keys()]; }

export function show(snapshot) {
  const now = Date.parse(snapshot.time) / 1000;
  const there = new Set();
  for (const keyspace of snapshot.keyspaces) {
    there.add(keyspace.name);
    let row = rows.get(keyspace.name);
    if (!row) rows.set(keyspace.name, row = add(keyspace));
    update(row, keyspace, now);
  }
  for (const [name, row] of rows) {
    if (!there.has(name)) { seen.unobserve(row.tr); row.tr.remove(); rows.delete(name); }
  }
  filter();
}

function add(keyspace) {
  const cells = ["level", "rate", "runway", "stock"].map((name) => el("td", { class: "n", "data-cell": name }));
  const chart = el("div", { class: "chart", role: "img" });
  const state = el("span", { class: "quiet" }, "");
  const tr = el("tr", {}, el("th", { scope: "row" }, keyspace.name, " ", state), el("td", {}, keyspace.scheme), ...cells, el("td", {}, chart));
  tr.dataset.name = keyspace.name;
  // In the order of names, as the server sends them.
  const next = [...rows.keys()].sort().find((name) => name > keyspace.name);
  body.insertBefore(tr, next ? rows.get(next).tr : null);
  seen.observe(tr);
  return { tr, cells, chart, state, plot: null, visible: false, times: [], levels: [], rates: [] };
}

function update(row, keyspace, now) {
  const [level, rate, runway, stock] = row.cells;
  write(level, short(keyspace.level));
  level.title = grouped(keyspace.level);
  write(rate, keyspace.rate === null ? "–" : short(keyspace.rate));
  write(runway, lasting(keyspace.runway_seconds));
  write(stock, short(keyspace.stock));
  write(row.state, keyspace.state === "retired" ? "(retired)" : "");
  row.tr.classList.toggle("below", Boolean(keyspace.below));
  row.keyspace = keyspace;
  row.times.push(now);
  row.levels.push(keyspace.level === undefined || keyspace.level === null ? null : Number(keyspace.level));
  row.rates.push(keyspace.rate);
  if (row.times.length > POINTS) { row.times.shift(); row.levels.shift(); row.rates.shift(); }
  row.chart.setAttribute("aria-label", `${keyspace.name}: level ${short(keyspace.level)}, ${short(keyspace.rate)} keys a second`);
  if (row.visible) draw(row);
}

function mark(row) {
  const { restart_keys: restart, page_keys: page } = row.keyspace || {};
  return [restart, page].map((keys) => row.times.map(() => (keys === undefined || keys === null ? null : Number(keys))));
}

function draw(row) {
  if (!row.times.length || typeof uPlot === "undefined") return;
  const [restart, page] = mark(row);
  const data = [row.times, row.rates, row.levels, restart, page];
  if (row.plot) { row.plot.setData(data); return; }
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const line = (stroke, scale, more = {}) => ({ stroke, scale, width: 1.5, points: { show: false }, ...more });
  row.plot = new uPlot({
    width: row.chart.clientWidth || 240, height: 44, legend: { show: false }, cursor: { show: false },
    axes: [{ show: false }, { show: false, scale: "rate" }], padding: [2, 2, 2, 2],
    scales: { rate: { range: (_, _min, max) => [0, max || 1] }, level: { range: (_, min, max) => (min === max ? [min - 1, max + 1] : [min, max]) } },
    series: [
      {}, line(colour("--accent"), "rate", { fill: `${colour("--accent")}22` }), line(colour("--quiet"), "level"),
      line(colour("--warn"), "level", { dash: [4, 3] }), line(colour("--bad"), "level", { dash: [4, 3] }),
    ],
  }, data, row.chart);
}

function filter() {
  const wanted = find.value.trim().toLowerCase();
  let shown = 0;
  for (const [name, row] of rows) {
    const match = name.toLowerCase().includes(wanted);
    if (row.tr.hidden === match) row.tr.hidden = !match;
    shown += match;
  }
  write(count, shown === rows.size ? `${rows.size}` : `${shown} of ${rows.size}`);
}
