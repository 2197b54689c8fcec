// Explains a key: what the ledger says of it, and what its bits say by themselves.
import { ask } from "./api.js";
import { el, grouped } from "./text.js";
import { names } from "./keyspaces.js";

const answer = document.getElementById("inspect-answer");
const ENOUGH = 20;

document.getElementById("inspect-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const key = document.getElementById("inspect-key").value.trim();
  const keyspace = document.getElementById("inspect-keyspace").value;
  answer.replaceChildren(el("p", { class: "quiet" }, "looking…"));
  const found = await Promise.all([known(key, keyspace ? [keyspace] : names()), decoded(key)]);
  const parts = found.flat();
  answer.replaceChildren(...(parts.length ? parts : [el("p", {}, "No keyspace spells that, and it is no ID that is known here.")]));
});

async function known(key, keyspaces) {
  const parts = [];
  for (const keyspace of keyspaces) {
    if (parts.length >= ENOUGH) break;
    try {
      const view = await ask(`/v1/keyspaces/${encodeURIComponent(keyspace)}/keys/${encodeURIComponent(key)}`);
      if (keyspaces.length === 1 || view.state !== "never_issued" || view.link) parts.push(keyView(view));
    } catch (refused) {
      if (keyspaces.length === 1) parts.push(el("p", { class: "bad" }, refused.message));
    }
  }
  return parts;
}

const SAID = {
  never_issued: "never issued", in_stock: "in a node's stock, not yet issued", issued: "issued", burned: "burned: it will never be issued",
  uncertain: "uncertain: reserved, and no record says whether it went out", alias: "a name that someone chose",
  withheld: "withheld: it will never be issued", untracked: "nobody keeps a record of these",
};

function keyView(view) {
  const facts = [["state", SAID[view.state] || view.state], ["number", grouped(view.number)], ["node", view.node], ["reserved", view.reserved_at],
    ["issued after", view.issued_after], ["issued before", view.issued_before]];
  const list = el("dl", {}, ...facts.filter(([, value]) => value && value !== "–").flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  if (view.id) list.append(...Object.entries(view.id).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  if (view.link) list.append(el("dt", {}, "leads to"), el("dd", { class: "key" }, view.link.url));
  if (view.refs) list.append(el("dt", {}, "known as"), el("dd", { class: "key" }, view.refs.join(", ")));
  return el("article", {}, el("h3", {}, el("span", { class: "key" }, view.key), ` in ${view.keyspace}`), list);
}

async function decoded(key) {
  try {
    const { readings } = await ask(`/v1/decode/${encodeURIComponent(key)}`);
    return readings.map((reading) => readingView(key, reading));
  } catch {
    return [];
  }
}

function readingView(key, reading) {
  const what = reading.layout ? `${reading.kind}, layout ${reading.layout}` : `${reading.kind}${reading.version ? ` version ${reading.version}` : ""}`;
  const fields = ["time", "region", "worker", "sequence"].filter((name) => reading[name] !== undefined && reading[name] !== null);
  const boxes = fields.map((name) => el("span", {}, name, el("b", {}, reading[name])));
  return el("article", {}, el("h3", {}, `Read as ${what}`), el("div", { class: "bits" }, ...boxes), bits(key));
}

// The bits of a 64-bit ID, by fours.
function bits(key) {
  if (!/^\d{1,20}$/.test(key)) return el("span", {});
  const text = BigInt(key).toString(2).padStart(64, "0").replace(/(.{4})/g, "$1 ").trim();
  return el("p", { class: "key quiet" }, text);
}
