// The dashboard: one stream of snapshots, a few forms, nothing but the public API.
import { ask, post } from "./api.js";
import { listen } from "./stream.js";
import { ago, el, grouped, lasting, short, write } from "./text.js";
import * as keyspaces from "./keyspaces.js";
import "./inspector.js";

const at = (id) => document.getElementById(id);

listen("/v1/stream", (name, data) => { if (name === "snapshot") show(data); }, (live) => {
  const link = at("link");
  if (link.dataset.state === (live ? "live" : "waiting")) return;
  link.dataset.state = live ? "live" : "waiting";
  link.textContent = live ? "live" : "the server does not answer; trying again…";
});

function show(snapshot) {
  write(at("who"), `${snapshot.node} · ${snapshot.version} · ledger ${snapshot.ledger.store} (${snapshot.ledger.grade}), ${snapshot.ledger.state}`);
  document.title = snapshot.incidents.length ? `(${snapshot.incidents.length}) Keymill` : "Keymill";
  keyspaces.show(snapshot);
  choices(snapshot.keyspaces);
  nodes(snapshot);
  workers(snapshot);
  alerts(snapshot);
}

function alerts(snapshot) {
  const box = at("alert");
  const reasons = snapshot.reasons.map((reason) => `${reason.code}: ${reason.detail}`);
  const open = snapshot.incidents.map((incident) => incident.summary);
  const text = [...reasons, ...open].join(" · ");
  box.hidden = !text;
  write(box, text);
  const list = at("incidents-list");
  const lines = snapshot.incidents.map((incident) => `${incident.severity}: ${incident.summary} (since ${ago(incident.since, Date.parse(snapshot.time))})`);
  const wanted = lines.length ? lines : ["Nothing is wrong that is watched."];
  if (list.dataset.text !== wanted.join("\n")) {
    list.dataset.text = wanted.join("\n");
    list.replaceChildren(...wanted.map((line) => el("li", {}, line)));
  }
  const refusals = Object.entries(snapshot.refusals || {}).map(([code, count]) => `${code} ${grouped(count)}`);
  write(at("refusals"), refusals.length ? `Refused since the start: ${refusals.join(", ")}` : "Nobody was refused since the start.");
}

// Choices are changed only when the keyspaces are: someone may be choosing.
let chosen = "";
function choices(all) {
  const key = all.map((keyspace) => keyspace.name + keyspace.scheme).join();
  if (key === chosen) return;
  chosen = key;
  fill("inspect-keyspace", all, "any");
  fill("claims-keyspace", all);
  fill("take-keyspace", all.filter((keyspace) => keyspace.scheme !== "digest"));
  fill("link-keyspace", all.filter((keyspace) => ["pool", "digest"].includes(keyspace.scheme)));
}

function fill(id, all, none) {
  const select = at(id);
  const was = select.value;
  select.replaceChildren(...(none ? [el("option", { value: "" }, none)] : []), ...all.map(({ name }) => el("option", { value: name }, name)));
  if ([...select.options].some((option) => option.value === was)) select.value = was;
}

function nodes(snapshot) {
  const now = Date.parse(snapshot.time);
  at("nodes-rows").replaceChildren(...snapshot.nodes.map((node) => el("tr", {},
    el("th", { scope: "row" }, node.name, node.name === snapshot.node ? " (this one)" : ""),
    el("td", { class: node.state === "live" ? "good" : "quiet" }, node.state), el("td", {}, ago(node.last_seen, now)),
    el("td", { class: "n" }, short(node.stock)), el("td", { class: "n" }, short(node.rate)), el("td", {}, node.version), el("td", {}, node.address))));
}

function workers(snapshot) {
  const box = at("workers-maps");
  const maps = snapshot.workers.map((map) => {
    const clock = map.clock_behind_ms ? `, the clock is ${map.clock_behind_ms} ms behind` : "";
    const window = map.window_seconds === undefined || map.window_seconds === null ? "" : `, reserved ${lasting(map.window_seconds)} ahead`;
    const held = map.workers.filter((worker) => worker.state === "live").length;
    const cells = new Map(map.workers.map((worker) => [worker.worker, worker]));
    const grid = el("div", { class: "map", role: "img", "aria-label": `${held} of ${map.capacity} workers of ${map.keyspace} are held` });
    for (let worker = 0; worker < Math.min(map.capacity, 1024); worker += 1) {
      const cell = cells.get(worker);
      grid.append(el("i", { "data-state": cell?.state, title: cell ? `${worker}: ${cell.holder}, ${cell.state}` : `${worker}: free` }));
    }
    return el("div", {}, el("p", {}, `${map.keyspace}: ${held} of ${grouped(map.capacity)} held${window}${clock}`), grid);
  });
  box.replaceChildren(...(maps.length ? maps : [el("p", { class: "quiet" }, "No keyspace makes time-ordered IDs.")]));
}

async function say(box, answer) {
  const out = at(box);
  try {
    out.replaceChildren(...await answer);
  } catch (refused) {
    out.replaceChildren(el("p", { class: "bad" }, refused.message));
  }
}

at("take-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const keyspace = encodeURIComponent(at("take-keyspace").value);
  say("make-answer", post(`/v1/keyspaces/${keyspace}/keys`, { count: Number(at("take-count").value) })
    .then(({ keys }) => [el("p", { class: "key" }, keys.join(" "))]));
});

at("link-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const alias = at("link-alias").value.trim();
  const link = { url: at("link-url").value.trim(), ...(alias ? { alias } : {}) };
  say("make-answer", post(`/v1/keyspaces/${encodeURIComponent(at("link-keyspace").value)}/links`, link)
    .then((made) => [el("p", {}, el("span", { class: "key" }, made.short_url || made.key), " leads to ", el("span", { class: "key" }, made.url))]));
});

let claims = [];
at("claims-load").addEventListener("click", async () => {
  const keyspace = at("claims-keyspace").value;
  try {
    claims = (await ask(`/v1/claims?limit=1000&keyspace=${encodeURIComponent(keyspace)}`)).claims;
    showClaims();
  } catch (refused) {
    at("claims-rows").replaceChildren(el("tr", {}, el("td", { colspan: 7, class: "bad" }, refused.message)));
  }
});
at("claims-find").addEventListener("input", showClaims);

function showClaims() {
  const wanted = at("claims-find").value.trim().toLowerCase();
  const match = (claim) => `${claim.track} ${claim.node} ${claim.state} ${claim.start} ${claim.end}`.toLowerCase().includes(wanted);
  at("claims-rows").replaceChildren(...claims.filter(match).slice(0, 200).map((claim) => el("tr", {},
    el("th", { scope: "row" }, claim.track), ...[claim.start, claim.end, claim.issued_up_to].map((number) => el("td", { class: "n" }, grouped(number))),
    el("td", {}, claim.node), el("td", {}, claim.reserved_at), el("td", {}, claim.state))));
}
