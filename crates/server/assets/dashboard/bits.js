// The bits of an ID, one square each, in the colours of its fields.
import { el, grouped } from "./text.js";

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const ULID = "time:48 random:80";
const UUIDS = {
  1: "time:48 version:4 time:12 variant:2 clock:14 node:48", 4: "random:48 version:4 random:12 variant:2 random:62",
  6: "time:48 version:4 time:12 variant:2 clock:14 node:48", 7: "time:48 version:4 random:12 variant:2 random:62",
};

// `fields` as the server spells a layout; UUIDs and ULIDs have theirs by definition. `said` has what they mean.
export function picture(key, fields, said) {
  const number = read(key);
  const layout = fields || (said.kind === "ulid" ? ULID : UUIDS[said.version]);
  if (number === null || !layout) return plain(said);
  const parts = layout.split(" ").map(parse);
  const used = parts.reduce((sum, part) => sum + part.bits, 0);
  const all = used <= 64 ? 64 : 128;
  const binary = number.toString(2).padStart(all, "0").slice(-all);
  if (all > used) parts.unshift({ name: "unused", bits: all - used });
  let from = 0;
  const groups = parts.map(({ name, bits }) => group(name, binary.slice(from, from += bits), said));
  const words = parts.map(({ name, bits }) => `${bits} bits of ${name}`).join(", ");
  return el("div", { class: "bits", role: "group", "aria-label": `The bits: ${words}` }, ...groups);
}

function parse(text) {
  const [name, rest] = text.split(":");
  return { name, bits: parseInt(rest, 10) };
}

function read(key) {
  if (/^\d{1,20}$/.test(key)) return BigInt(key);
  const hex = key.replaceAll("-", "");
  if (/^[0-9a-f]{32}$/i.test(hex)) return BigInt(`0x${hex}`);
  if (!/^[0-9a-z]{26}$/i.test(key)) return null;
  const digits = [...key.toUpperCase()].map((symbol) => CROCKFORD.indexOf({ I: "1", L: "1", O: "0" }[symbol] || symbol));
  return digits.includes(-1) ? null : digits.reduce((sum, digit) => sum * 32n + BigInt(digit), 0n);
}

function group(name, bits, said) {
  const squares = [...bits].map((bit) => el("i", { class: bit === "1" ? "on" : "" }));
  return el("div", { class: "field", "data-field": name },
    el("span", { class: "squares", role: "img", "aria-label": bits }, ...squares),
    el("span", { class: "name" }, `${name}, ${bits.length} ${bits.length === 1 ? "bit" : "bits"}`), el("b", {}, meaning(name, bits, said)));
}

function meaning(name, bits, said) {
  if (said[name] !== undefined && said[name] !== null) return String(said[name]);
  const number = BigInt(`0b${bits}`);
  if (name === "time") return "";
  return bits.length > 16 ? `0x${number.toString(16)}` : grouped(number);
}

// Something without a layout has at most a time.
function plain({ time }) {
  return time ? el("p", {}, time) : el("span");
}
