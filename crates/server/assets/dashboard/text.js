// How things are written. Whatever comes from the server becomes text nodes, never markup.

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.map((child) => (child instanceof Node ? child : String(child ?? "–"))));
  return node;
}

// Sets a cell's text only if it changed: 200 rows a second are mostly the same.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// 3521614606208 → 3,521,614,606,208; strings, because they may exceed 2^53.
export function grouped(text) {
  return text === undefined || text === null ? "–" : String(text).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function short(text) {
  if (text === undefined || text === null) return "–";
  const value = Number(text);
  const units = ["", "K", "M", "G", "T", "P", "E"];
  let unit = 0;
  let shown = value;
  // Four digits are read as they are.
  while (shown >= (unit === 0 ? 10000 : 1000) && unit < units.length - 1) { shown /= 1000; unit += 1; }
  return unit === 0 ? String(Math.round(shown * 10) / 10) : `${shown.toFixed(1)}${units[unit]}`;
}

export function lasting(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  for (const [unit, size] of [["years", 31557600], ["days", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return `${(seconds / size).toFixed(seconds >= 10 * size ? 0 : 1)} ${unit}`;
  }
  return `${Math.round(seconds)} s`;
}

export function ago(time, now) {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1000);
  return seconds < 2 ? "now" : `${lasting(seconds)} ago`;
}
