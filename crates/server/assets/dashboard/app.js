// The dashboard: one stream of snapshots, a few forms, nothing but the public API.
import { Refused } from "./api.js";
import { listen } from "./stream.js";
import { at, el, write } from "./text.js";
import * as claims from "./claims.js";
import * as incidents from "./incidents.js";
import * as keyspaces from "./keyspaces.js";
import * as nodes from "./nodes.js";
import * as overview from "./overview.js";
import * as workers from "./workers.js";
import "./make.js";

listen("/v1/stream", (name, data) => { if (name === "snapshot") show(data); }, (live, why) => {
  const link = at("link");
  link.dataset.state = live ? "live" : "waiting";
  write(link, live ? "live" : why instanceof Refused ? why.message : "the server does not answer; trying again…");
  document.body.classList.toggle("stale", !live);
});

function show(snapshot) {
  const begun = performance.now();
  write(at("who"), `${snapshot.node} · ${snapshot.version}`);
  document.title = snapshot.incidents.length ? `(${snapshot.incidents.length}) Keymill` : "Keymill";
  for (const part of [overview, keyspaces, nodes, workers, incidents]) part.show(snapshot);
  choices(snapshot.keyspaces);
  // How long it took, for whoever measures; only the last one is kept.
  performance.clearMeasures("snapshot");
  performance.measure("snapshot", { start: begun, end: performance.now() });
}

// Choices are changed only when the keyspaces are: someone may be choosing.
let chosen = "";
function choices(all) {
  const key = all.map((keyspace) => keyspace.name + keyspace.scheme).join();
  if (key === chosen) return;
  chosen = key;
  const of = (...schemes) => all.filter((keyspace) => schemes.includes(keyspace.scheme));
  fill("inspect-keyspace", all, "any");
  fill("claims-keyspace", of("pool", "sequence", "snowflake"));
  fill("take-keyspace", all.filter((keyspace) => keyspace.scheme !== "digest"));
  fill("link-keyspace", of("pool", "digest"));
  claims.begin();
}

function fill(id, all, none) {
  const select = at(id);
  const was = select.value;
  select.replaceChildren(...(none ? [el("option", { value: "" }, none)] : []), ...all.map(({ name }) => el("option", { value: name }, name)));
  if ([...select.options].some((option) => option.value === was)) select.value = was;
}
