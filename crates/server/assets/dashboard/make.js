// Takes keys and makes links, as any caller of the API does.
import { path, post } from "./api.js";
import { at, el } from "./text.js";
import { inspect } from "./inspector.js";

async function say(answer) {
  const out = at("make-answer");
  try {
    out.replaceChildren(...await answer);
  } catch (refused) {
    out.replaceChildren(el("p", { class: "bad" }, refused.message));
  }
}

// A key that explains itself when it is pressed.
function chip(key, keyspace) {
  const button = el("button", { type: "button", class: "plain key", title: "What is this key?" }, key);
  button.addEventListener("click", () => inspect(key, keyspace));
  return button;
}

at("take-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const keyspace = at("take-keyspace").value;
  say(post(`/v1/keyspaces${path(keyspace)}/keys`, { count: Number(at("take-count").value) })
    .then(({ keys }) => [el("p", { class: "chips" }, ...keys.map((key) => chip(key, keyspace)))]));
});

at("link-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const keyspace = at("link-keyspace").value;
  const alias = at("link-alias").value.trim();
  const link = { url: at("link-url").value.trim(), ...(alias ? { alias } : {}) };
  say(post(`/v1/keyspaces${path(keyspace)}/links`, link).then((made) => [el("p", { class: "chips" },
    chip(made.key, keyspace), ...(made.short_url ? [el("span", { class: "key" }, made.short_url)] : []), " leads to ", el("span", { class: "key" }, made.url))]));
});
