// Who serves, and how much of it.
import { ago, at, bar, el, keep, short, write } from "./text.js";

const rows = new Map();

export function show(snapshot) {
  const now = Date.parse(snapshot.time);
  const busiest = Math.max(1, ...snapshot.nodes.map((node) => node.rate));
  const live = snapshot.nodes.filter((node) => node.state === "live").length;
  write(at("nodes-count"), live === snapshot.nodes.length ? `${live}` : `${live} live of ${snapshot.nodes.length}`);
  keep(at("nodes-rows"), rows, snapshot.nodes, ({ name }) => name, make, (row, node) => {
    write(row.me, node.name === snapshot.node ? "this one" : "");
    row.me.hidden = node.name !== snapshot.node;
    write(row.state, node.state);
    row.state.className = { live: "good", silent: "bad" }[node.state] || "quiet";
    write(row.heard, ago(node.last_seen, now));
    write(row.rate, short(node.rate));
    row.share.firstElementChild.style.width = `${(node.rate / busiest) * 100}%`;
    write(row.stock, short(node.stock));
    write(row.version, node.version);
    write(row.address, node.address);
  });
}

function make({ name }) {
  const me = el("span", { class: "badge" });
  const share = bar(0, `The share of ${name}`);
  const [state, heard, version, address] = Array.from({ length: 4 }, () => el("td"));
  const [rate, stock] = Array.from({ length: 2 }, () => el("td", { class: "n" }));
  const node = el("tr", {}, el("th", { scope: "row" }, name, " ", me), state, heard, rate, el("td", {}, share), stock, version, address);
  return { node, me, state, heard, rate, share, stock, version, address };
}
