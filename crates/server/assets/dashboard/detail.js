// One keyspace at large: its chart with scales, how its space is used, how it is defined and tuned.
import { ask, path } from "./api.js";
import { at, bar, el, facts, grouped, lasting, short, write } from "./text.js";
import { keyspaceChart, keyspaceData } from "./charts.js";

const dialog = at("detail");
let shown = null;
let chart = null;

export function open(row) {
  shown = row;
  write(at("detail-title"), row.keyspace.name);
  at("detail-facts").replaceChildren(el("p", { class: "quiet" }, "looking…"));
  dialog.showModal();
  chart = keyspaceChart(at("detail-chart"), keyspaceData(row.history, row.keyspace), short);
  ask(`/v1/keyspaces${path(row.keyspace.name)}`).then(
    (keyspace) => { if (shown === row) at("detail-facts").replaceChildren(...parts(keyspace)); },
    (refused) => at("detail-facts").replaceChildren(el("p", { class: "bad" }, refused.message)),
  );
}

dialog.addEventListener("close", () => {
  chart?.destroy();
  chart = shown = null;
});

// Draws on while it is open.
export function renew(rows) {
  if (shown && rows.get(shown.keyspace.name) === shown) chart.set(keyspaceData(shown.history, shown.keyspace));
}

function parts(keyspace) {
  const { claims = {} } = keyspace;
  const list = (object) => Object.entries(object || {}).map(([name, value]) => [name, typeof value === "object" ? JSON.stringify(value) : String(value)]);
  return [
    usage(keyspace),
    facts([["scheme", keyspace.scheme], ["state", keyspace.state], ["made", keyspace.created_at], ["size", grouped(keyspace.size)],
      ["level", grouped(keyspace.level)], ["stock here", grouped(keyspace.stock)], ["lasts", lasting(keyspace.runway_seconds)],
      ["used up", keyspace.exhausted_at], ["reserved", grouped(claims.reserved)], ["issued", grouped(claims.issued)],
      ["burned", grouped(claims.burned)], ["holes", grouped(claims.holes)]]),
    el("details", {}, el("summary", {}, "Definition, frozen"), facts([...list(keyspace.definition), ["fingerprint", keyspace.fingerprint]])),
    el("details", {}, el("summary", {}, "Tuning"), facts(list(keyspace.tuning))),
  ];
}

// How much of the space was ever reserved.
function usage({ size, level }) {
  if (size === undefined || size === null || level === undefined || level === null || Number(size) === 0) return el("span");
  const used = 1 - Number(level) / Number(size);
  const said = `${(used * 100).toPrecision(2)} % of the space is used`;
  return el("p", {}, bar(used, said), " ", said);
}
