// Asks the server. The token is kept here and nowhere else: closing the page forgets it.
let token = "";
let asking = null;

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `the server answered ${status}`);
    this.status = status;
    this.code = problem.code || "";
  }
}

// Asks a person for a token; whoever else needs one meanwhile waits for the same answer.
function askForToken(why) {
  asking ??= new Promise((done) => {
    const dialog = document.getElementById("token");
    const text = document.getElementById("token-text");
    document.getElementById("token-error").textContent = why;
    dialog.addEventListener("close", () => {
      token = text.value.trim();
      text.value = "";
      asking = null;
      done();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

function headers(more) {
  return token ? { ...more, authorization: `Bearer ${token}` } : more;
}

// Fetches, asking for a token as often as the server wants another one.
export async function request(path, options = {}) {
  for (;;) {
    const used = token;
    const answer = await fetch(path, { ...options, headers: headers(options.headers || {}), cache: "no-store" });
    if (answer.status !== 401) return answer;
    if (used === token) await askForToken(used ? "That token is not accepted." : "");
  }
}

export async function ask(path, options = {}) {
  const answer = await request(path, options);
  const text = await answer.text();
  let body = {};
  try { body = text ? JSON.parse(text) : {}; } catch { body = { detail: text.slice(0, 200) }; }
  if (!answer.ok) throw new Refused(answer.status, body);
  return body;
}

export function post(path, body) {
  return ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}
