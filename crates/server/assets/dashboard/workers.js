// The map of workers: a square each, by who holds it, with how far its time is reserved and how its clock fares.
import { at, bar, el, grouped, keep, lasting, write } from "./text.js";

const maps = new Map();
// A layout with more workers than this shows those that were ever held.
const SQUARES_MAX = 2048;
const HOLDERS_MAX = 24;
const SOME_SECONDS = 60;

export function show(snapshot) {
  keep(at("workers-maps"), maps, snapshot.workers, ({ keyspace }) => keyspace, make, renew);
  at("workers").hidden = !snapshot.workers.length;
}

function make({ keyspace, capacity }) {
  const [held, clock, ahead] = [el("span", { class: "quiet" }), el("span", { class: "badge" }), el("span", { class: "quiet" })];
  const reach = bar(0, "How far ahead time is reserved");
  const squares = new Map();
  const grid = el("div", { class: "map", role: "img" });
  if (capacity <= SQUARES_MAX) for (let worker = 0; worker < capacity; worker += 1) grid.append(square(squares, worker));
  const holders = el("p", { class: "chips" });
  const node = el("article", {}, el("h3", {}, keyspace, " ", clock), el("p", {}, held, " ", reach, " ", ahead), grid, holders);
  return { node, held, clock, ahead, reach, grid, squares, holders, text: "" };
}

function square(squares, worker) {
  const node = el("i", { title: `${worker}: free` });
  squares.set(worker, { node, state: "" });
  return node;
}

function renew(row, map) {
  const live = map.workers.filter((worker) => worker.state === "live");
  const said = `${grouped(live.length)} of ${grouped(map.capacity)} held`;
  write(row.held, said);
  row.grid.setAttribute("aria-label", `${map.keyspace}: ${said}`);
  const behind = map.clock_behind_ms > 0;
  write(row.clock, behind ? `the clock is ${grouped(map.clock_behind_ms)} ms behind` : "clock well");
  row.clock.dataset.mood = behind ? "bad" : "good";
  const seconds = map.window_seconds;
  write(row.ahead, seconds === undefined || seconds === null ? "this node holds none" : `time reserved ${lasting(seconds)} ahead`);
  row.reach.firstElementChild.style.width = `${Math.min(1, (seconds || 0) / SOME_SECONDS) * 100}%`;
  for (const worker of map.workers) paint(row, worker);
  chips(row, live);
}

function paint(row, { worker, holder, state, term }) {
  let cell = row.squares.get(worker);
  if (!cell) { row.grid.append(square(row.squares, worker)); cell = row.squares.get(worker); }
  const now = `${state} ${holder}`;
  if (cell.state === now) return;
  cell.state = now;
  cell.node.dataset.state = state;
  cell.node.title = `${worker}: ${state === "live" ? "held" : state} by ${holder}, for the ${grouped(term)}. time`;
}

function chips(row, live) {
  const text = live.map(({ worker, holder }) => `${worker} ${holder}`).join("\n");
  if (text === row.text) return;
  row.text = text;
  const shown = live.slice(0, HOLDERS_MAX).map(({ worker, holder }) => el("span", {}, el("b", {}, `${worker}`), ` ${holder}`));
  const more = live.length > HOLDERS_MAX ? [el("span", {}, `and ${live.length - HOLDERS_MAX} more`)] : [];
  row.holders.replaceChildren(...shown, ...more);
}
