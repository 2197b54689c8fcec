// Explains a key: what the ledger says of it, and what its bits say by themselves.
import { ask, path } from "./api.js";
import { at, el, facts, grouped } from "./text.js";
import { names } from "./keyspaces.js";
import { picture } from "./bits.js";

const answer = at("inspect-answer");
// A short text may be a key of many keyspaces.
const ENOUGH = 20;
const AT_ONCE = 6;
let round = 0;

at("inspect-form").addEventListener("submit", (event) => {
  event.preventDefault();
  look(at("inspect-key").value.trim(), at("inspect-keyspace").value);
});

// Shows a key here, from wherever it was seen.
export function inspect(key, keyspace) {
  at("inspect-key").value = key;
  at("inspect-keyspace").value = keyspace;
  at("inspect").scrollIntoView({ block: "nearest" });
  return look(key, keyspace);
}

async function look(key, keyspace) {
  const mine = round += 1;
  answer.replaceChildren(el("p", { class: "quiet" }, "looking…"));
  const [keys, readings] = await Promise.all([known(key, keyspace ? [keyspace] : names()), decoded(key)]);
  if (mine !== round) return;
  const parts = [...keys, ...others(readings, keys.length > 0)];
  answer.replaceChildren(...(parts.length ? parts : [el("p", {}, "No keyspace spells that, and it is no ID that is known here.")]));
}

async function known(key, keyspaces) {
  const found = [];
  const waiting = [...keyspaces];
  const alone = keyspaces.length === 1;
  const worker = async () => {
    while (waiting.length && found.length < ENOUGH) {
      const keyspace = waiting.shift();
      try {
        const view = await ask(`/v1/keyspaces${path(keyspace)}/keys${path(key)}`);
        if (alone || !["never_issued", "untracked"].includes(view.state) || view.link) found.push([keyspace, await keyView(view)]);
      } catch (refused) {
        if (alone) found.push([keyspace, el("p", { class: "bad" }, refused.message)]);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return found.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, view]) => view);
}

const SAID = {
  never_issued: "never issued", in_stock: "in a node's stock, not yet issued", issued: "issued", burned: "burned: it will never be issued",
  uncertain: "reserved; no record says whether this very one went out", alias: "a name that someone chose",
  withheld: "withheld: it will never be issued", untracked: "nobody keeps a record of these",
};

async function keyView(view) {
  const { link } = view;
  const list = facts([
    ["state", el("strong", {}, SAID[view.state] || view.state)], ["number", grouped(view.number)], ["by node", view.node],
    ["reserved", view.reserved_at], ["issued after", view.issued_after], ["issued before", view.issued_before],
    ["leads to", link && el("span", { class: "key" }, link.url)], ["expires", link?.expires_at],
    ["followed", link?.visits !== undefined && `${grouped(link.visits)} times`],
    ["known as", view.refs?.length && el("span", { class: "key" }, view.refs.join(", "))],
  ].filter(([, value]) => value));
  const article = el("article", {}, el("h3", {}, el("span", { class: "key" }, view.key), ` in ${view.keyspace}`), list);
  if (view.id) article.append(await layoutOf(view));
  return article;
}

// The bits of an ID as its keyspace lays them out.
async function layoutOf(view) {
  const { definition } = await ask(`/v1/keyspaces${path(view.keyspace)}`);
  const { readings } = await ask(`/v1/decode${path(view.key)}?layout=${encodeURIComponent(definition.layout)}`);
  return picture(view.key, readings[0]?.fields, view.id);
}

async function decoded(key) {
  try {
    return (await ask(`/v1/decode${path(key)}`)).readings.map((reading) => readingView(key, reading));
  } catch {
    return [];
  }
}

// Where the ledger knows the key, what else it might be is of less interest.
function others(readings, isKnown) {
  if (!readings.length || !isKnown) return readings;
  return [el("details", {}, el("summary", {}, "What it could be elsewhere"), ...readings)];
}

function readingView(key, reading) {
  const named = reading.layout ? `, layout ${reading.layout}` : reading.version ? ` version ${reading.version}` : "";
  return el("article", {}, el("h3", {}, `As a ${reading.kind}${named}`), picture(key, reading.fields, reading));
}
