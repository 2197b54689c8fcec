// What is wrong, what was, and who was refused.
import { ask } from "./api.js";
import { ago, at, bar, el, grouped, keep, write } from "./text.js";

const OVER_MAX = 10;
const cards = new Map();
const counts = new Map();
let over = [];
let open = null;
let said = "";

export function show(snapshot) {
  alert(snapshot);
  // Those that are over are asked for when one may have become so.
  const now = snapshot.incidents.map((incident) => incident.id).join();
  if (now !== open) { open = now; loadOver(); }
  const time = Date.parse(snapshot.time);
  const all = [...snapshot.incidents, ...over.filter((incident) => !snapshot.incidents.some(({ id }) => id === incident.id))];
  keep(at("incidents-list"), cards, all, ({ id }) => id, make, (card, incident) => {
    card.node.dataset.mood = incident.state === "resolved" ? "over" : incident.severity;
    write(card.kind, incident.state === "resolved" ? "over" : incident.severity);
    write(card.summary, incident.summary);
    write(card.since, incident.state === "resolved" ? `${ago(incident.resolved_at, time)}` : `since ${ago(incident.since, time)}${incident.notified ? ", someone was told" : ""}`);
  });
  at("incidents-list").dataset.none = all.length ? "" : "Nothing is wrong that is watched, and nothing was.";
  refusals(snapshot.refusals || {});
}

async function loadOver() {
  try {
    over = (await ask("/v1/incidents")).incidents.filter((incident) => incident.state === "resolved").slice(0, OVER_MAX);
  } catch { /* what is open is shown all the same */ }
}

function make() {
  const [kind, summary, since] = [el("span", { class: "badge" }), el("span"), el("span", { class: "quiet" })];
  return { node: el("li", {}, kind, " ", summary, " ", since), kind, summary, since };
}

// The banner. Figures in it may change every second; it is read out only when something new is wrong.
function alert({ reasons, incidents }) {
  const box = at("alert");
  const lines = [...reasons.map(({ code, detail }) => `${code}: ${detail}`), ...incidents.map(({ summary }) => summary)];
  box.hidden = !lines.length;
  write(box, lines.join(" · "));
  const what = [...reasons.map(({ code }) => code), ...incidents.map(({ id }) => id)].join();
  if (what === said) return;
  said = what;
  write(at("said"), lines.length ? `Something is wrong: ${lines.join("; ")}` : "All is well again.");
}

function refusals(byCode) {
  const list = Object.entries(byCode).map(([code, count]) => ({ code, count })).sort((a, b) => b.count - a.count);
  const most = Math.max(1, ...list.map(({ count }) => count));
  const box = at("refusals-list");
  keep(box, counts, list, ({ code }) => code, ({ code }) => {
    const [count, share] = [el("span", { class: "n" }), bar(0, code)];
    return { node: el("div", {}, el("dt", {}, code), el("dd", {}, share, " ", count)), count, share };
  }, (row, { count }) => {
    write(row.count, grouped(count));
    row.share.firstElementChild.style.width = `${(count / most) * 100}%`;
  });
  box.dataset.none = list.length ? "" : "Nobody was refused.";
}
