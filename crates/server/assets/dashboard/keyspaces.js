// The table of keyspaces, each with a small chart of its level and rate, the marks drawn in.
import { ask } from "./api.js";
import { at, el, grouped, keep, lasting, short, write } from "./text.js";
import { History } from "./history.js";
import { keyspaceData, spark } from "./charts.js";
import * as detail from "./detail.js";

const rows = new Map();
const find = at("keyspaces-find");
const sort = at("keyspaces-sort");
// An order by figures is made anew only so often: rows must not run away from whoever reads them.
const SORT_EVERY = 10;
let order = [];
let rounds = 0;

// Charts are drawn only for rows that can be seen.
const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const row = rows.get(target.dataset.name);
    if (!row) continue;
    row.visible = isIntersecting;
    if (isIntersecting) { draw(row); remember(target.dataset.name, row); }
  }
}, { rootMargin: "100px" });

find.addEventListener("input", filter);
sort.addEventListener("change", () => { rounds = 0; place([...rows.values()].map((row) => row.keyspace)); });

export function names() { return [...rows.keys()]; }

export function show(snapshot) {
  const now = Date.parse(snapshot.time) / 1000;
  place(snapshot.keyspaces);
  for (const keyspace of snapshot.keyspaces) record(rows.get(keyspace.name), now);
  filter();
  detail.renew(rows);
}

function place(keyspaces) {
  const known = new Map(keyspaces.map((keyspace) => [keyspace.name, keyspace]));
  const same = order.length === known.size && order.every((name) => known.has(name));
  if (!same || (sort.value !== "name" && rounds % SORT_EVERY === 0)) order = sorted(keyspaces).map(({ name }) => name);
  rounds += 1;
  keep(at("keyspaces-rows"), rows, order.map((name) => known.get(name)), ({ name }) => name, make, renew);
}

function sorted(keyspaces) {
  const by = {
    name: () => 0,
    rate: (a, b) => b.rate - a.rate,
    runway: (a, b) => (a.runway_seconds ?? Infinity) - (b.runway_seconds ?? Infinity) || 0,
  };
  return [...keyspaces].sort((a, b) => by[sort.value](a, b) || (a.name < b.name ? -1 : 1));
}

function make({ name, scheme }) {
  const cells = ["level", "rate", "runway", "stock"].map((cell) => el("td", { class: "n", "data-cell": cell }));
  const chart = el("div", { class: "chart spark", role: "img" });
  const state = el("span", { class: "badge", hidden: true });
  const open = el("button", { type: "button", class: "plain" }, name);
  const node = el("tr", { "data-name": name }, el("th", { scope: "row" }, open, " ", state), el("td", { class: "quiet" }, scheme), ...cells,
    el("td", {}, chart));
  const row = { node, cells, chart, state, plot: null, visible: false, history: new History(2) };
  open.addEventListener("click", () => detail.open(row));
  seen.observe(node);
  return row;
}

function renew(row, keyspace) {
  const [level, rate, runway, stock] = row.cells;
  write(level, short(keyspace.level));
  level.title = grouped(keyspace.level);
  write(rate, short(keyspace.rate));
  write(runway, lasting(keyspace.runway_seconds));
  write(stock, short(keyspace.stock));
  const state = keyspace.below ? "below its mark" : keyspace.state === "retired" ? "retired" : "";
  write(row.state, state);
  row.state.hidden = !state;
  row.node.classList.toggle("below", Boolean(keyspace.below));
  row.keyspace = keyspace;
}

function record(row, now) {
  const { name, level, rate } = row.keyspace;
  row.history.push(now, level === undefined || level === null ? null : Number(level), rate);
  row.chart.setAttribute("aria-label", `${name}: level ${short(level)}, ${short(rate)} keys a second`);
  if (row.visible) draw(row);
}

// What was before the page was opened; a server that does not say leaves the chart as it is.
async function remember(name, row) {
  if (row.remembered) return;
  row.remembered = true;
  try {
    const { points } = await ask(`/v1/keyspaces/${encodeURIComponent(name)}/history`);
    row.history.precede(points.map(({ time, level, rate }) => [Date.parse(time) / 1000, Number(level), rate]));
    if (row.visible) draw(row);
  } catch { row.remembered = false; }
}

function draw(row) {
  if (!row.history.times.length) return;
  const data = keyspaceData(row.history, row.keyspace);
  if (row.plot) row.plot.set(data);
  else row.plot = spark(row.chart, data);
}

function filter() {
  const wanted = find.value.trim().toLowerCase();
  let shown = 0;
  for (const [name, row] of rows) {
    const match = name.toLowerCase().includes(wanted);
    if (row.node.hidden === match) row.node.hidden = !match;
    shown += match;
  }
  write(at("keyspaces-count"), shown === rows.size ? `${rows.size}` : `${shown} of ${rows.size}`);
}
