// How things are written. Whatever comes from the server becomes text nodes, never markup.

export const at = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.map((child) => (child instanceof Node ? child : String(child ?? "–"))));
  return node;
}

// Sets a text only if it changed: 200 rows a second are mostly the same.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// A name and a value each, those that are not there left out.
export function facts(pairs) {
  const there = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== "–");
  return el("dl", { class: "facts" }, ...there.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

// Keeps one element for each item, found again by its key, in the order of the items. `make` builds one, `renew`
// brings it up to date; what did not change is left alone, and with it focus and selection.
export function keep(parent, known, items, key, make, renew) {
  const there = new Set();
  let before = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    there.add(name);
    let row = known.get(name);
    if (!row) known.set(name, row = make(item));
    if (row.node === before) before = before.nextElementSibling;
    else parent.insertBefore(row.node, before);
    renew(row, item);
  }
  for (const [name, row] of known) {
    if (!there.has(name)) { row.node.remove(); known.delete(name); }
  }
}

// 3521614606208 → 3,521,614,606,208; strings, because they may exceed 2^53.
export function grouped(text) {
  return text === undefined || text === null ? "–" : String(text).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function short(text) {
  if (text === undefined || text === null) return "–";
  const units = ["", "K", "M", "G", "T", "P", "E"];
  let unit = 0;
  let shown = Number(text);
  // Four digits are read as they are.
  while (shown >= (unit === 0 ? 10000 : 1000) && unit < units.length - 1) { shown /= 1000; unit += 1; }
  return unit === 0 ? String(Math.round(shown * 10) / 10) : `${shown.toFixed(1)}${units[unit]}`;
}

const YEAR = 31557600;

export function lasting(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  if (seconds >= 1000 * YEAR) return `${short(Math.round(seconds / YEAR))} years`;
  for (const [unit, size] of [["years", YEAR], ["days", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return `${(seconds / size).toFixed(seconds >= 10 * size ? 0 : 1)} ${unit}`;
  }
  return `${Math.round(seconds)} s`;
}

export function ago(time, now) {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1000);
  return seconds < 3 ? "now" : `${lasting(seconds)} ago`;
}

// A bar filled to a share of 1. Its width is set by script: the page's policy allows no styles in attributes.
export function bar(share, label) {
  const fill = el("i");
  fill.style.width = `${Math.max(0, Math.min(1, share || 0)) * 100}%`;
  return el("span", { class: "meter", role: "img", "aria-label": label }, fill);
}
