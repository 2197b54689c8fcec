// The audit: which node reserved what, when, and how much of it is known to be issued.
import { ask } from "./api.js";
import { at, bar, el, grouped, write } from "./text.js";

const SHOWN_MAX = 200;
const WORKERS_MAX = 32;
let claims = [];
let round = 0;

at("claims-load").addEventListener("click", load);
at("claims-keyspace").addEventListener("change", load);
at("claims-find").addEventListener("input", show);

// The first keyspace's are shown without asking.
export function begin() {
  if (!claims.length) load();
}

async function load() {
  const keyspace = at("claims-keyspace").value;
  if (!keyspace) return;
  const mine = round += 1;
  try {
    const found = await Promise.all((await tracks(encodeURIComponent(keyspace))).map((track) => ask(`/v1/claims?limit=1000&${track}`)));
    if (mine !== round) return;
    claims = found.flatMap((page) => page.claims).sort((a, b) => b.reserved_at.localeCompare(a.reserved_at));
    show();
  } catch (refused) {
    write(at("claims-count"), refused.message);
  }
}

// Numbers are reserved by keyspace, time by worker.
async function tracks(keyspace) {
  const { workers } = await ask(`/v1/workers?keyspace=${keyspace}`);
  if (!workers.length) return [`keyspace=${keyspace}`];
  return workers.slice(0, WORKERS_MAX).map(({ worker }) => `keyspace=${keyspace}&worker=${worker}`);
}

function show() {
  const wanted = at("claims-find").value.trim().toLowerCase().replaceAll(",", "");
  const match = (claim) => [claim.node, claim.state, claim.start, claim.end, claim.reserved_at].join(" ").toLowerCase().includes(wanted) || holds(claim, wanted);
  const found = claims.filter(match);
  write(at("claims-count"), claims.length ? `${grouped(found.length)} of ${grouped(claims.length)}` : "none yet");
  at("claims-rows").replaceChildren(...found.slice(0, SHOWN_MAX).map(row));
}

// A number is found in the claim that holds it.
function holds(claim, wanted) {
  if (!/^\d{1,19}$/.test(wanted)) return false;
  const number = BigInt(wanted);
  return BigInt(claim.start) <= number && number < BigInt(claim.end);
}

function row(claim) {
  const all = Number(claim.end) - Number(claim.start);
  const share = all ? (Number(claim.issued_up_to) - Number(claim.start)) / all : 0;
  const worker = claim.track.split("/")[1];
  const who = worker === undefined ? claim.node : `${claim.node}, worker ${worker}`;
  return el("tr", {}, el("td", {}, claim.reserved_at), el("th", { scope: "row" }, who), el("td", {}, claim.state),
    el("td", { class: "n" }, grouped(claim.start)), el("td", { class: "n" }, grouped(claim.end)),
    el("td", {}, bar(share, `${Math.round(share * 100)} % issued`)), el("td", { class: "n" }, grouped(claim.issued_up_to)));
}
