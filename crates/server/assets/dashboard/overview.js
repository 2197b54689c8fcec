// The few figures that say whether all is well, and how busy it is.
import { at, el, lasting, short, write } from "./text.js";
import { History } from "./history.js";
import { rateChart } from "./charts.js";

const history = new History(1);
let chart = null;

const tiles = new Map(["busy", "nodes", "ledger", "first", "wrong"].map((name) => {
  const [value, label] = [el("b"), el("span")];
  const node = el("div", { class: "tile", id: `tile-${name}` }, value, label);
  at("tiles").append(node);
  return [name, { node, value, label }];
}));

export function show(snapshot) {
  const rate = snapshot.keyspaces.reduce((sum, keyspace) => sum + keyspace.rate, 0);
  const live = snapshot.nodes.filter((node) => node.state === "live").length;
  const { store, grade, state } = snapshot.ledger;
  const first = soonest(snapshot.keyspaces);
  const wrong = snapshot.incidents.length + snapshot.reasons.length;
  tile("busy", short(rate), "keys a second");
  tile("nodes", `${live}`, live === 1 ? "node is live" : "nodes are live", live ? "" : "bad");
  tile("ledger", state, `ledger: ${store}, ${grade}`, state === "ok" ? "good" : "bad");
  tile("first", first ? lasting(first.runway_seconds) : "–", first ? `until ${first.name} is used up` : "nothing is being used up");
  tile("wrong", wrong ? `${wrong}` : "all well", wrong === 1 ? "thing is wrong" : wrong ? "things are wrong" : "nothing is wrong that is watched", wrong ? "bad" : "good");
  history.push(Date.parse(snapshot.time) / 1000, rate);
  if (chart) chart.set([history.times, history.columns[0]]);
  else chart = rateChart(at("total"), history, short);
}

// Time-ordered IDs end with their layout, whoever takes how many: that is news only if nothing else is used up.
function soonest(keyspaces) {
  const used = keyspaces.filter((keyspace) => keyspace.state !== "retired" && keyspace.runway_seconds !== null && keyspace.runway_seconds !== undefined);
  const by = (a, b) => a.runway_seconds - b.runway_seconds;
  return used.filter(({ scheme }) => scheme !== "snowflake").sort(by)[0] || used.sort(by)[0];
}

function tile(name, value, label, mood = "") {
  const { node, ...parts } = tiles.get(name);
  write(parts.value, value);
  write(parts.label, label);
  if (node.dataset.mood !== mood) node.dataset.mood = mood;
}
