// Asks the server. The token is kept here and nowhere else: closing the page forgets it.
let token = "";
let asking = null;
let declined = false;

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `the server answered ${status}`);
    this.status = status;
    this.code = problem.code || "";
  }
}

const dialog = document.getElementById("token");
const text = document.getElementById("token-text");
const again = document.getElementById("token-again");

// Asks a person for a token; whoever else needs one meanwhile waits for the same answer. Whoever closes the dialog
// without one is not asked again until they press the button.
function askForToken(why) {
  asking ??= new Promise((done) => {
    document.getElementById("token-error").textContent = why;
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      token = dialog.returnValue === "use" ? text.value.trim() : "";
      declined = !token;
      again.hidden = !declined;
      text.value = "";
      asking = null;
      done();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

again.addEventListener("click", () => { declined = false; again.hidden = true; });

function headers(more) {
  return token ? { ...more, authorization: `Bearer ${token}` } : more;
}

// Fetches, asking for a token as often as the server wants another one.
export async function request(path, options = {}) {
  for (;;) {
    const used = token;
    const answer = await fetch(path, { ...options, headers: headers(options.headers || {}), cache: "no-store" });
    if (answer.status !== 401) return answer;
    if (declined) throw new Refused(401, { detail: "This server shows nothing without a token.", code: "unauthenticated" });
    if (used === token) await askForToken(used ? "That token is not accepted." : "");
  }
}

export async function ask(path, options = {}) {
  const answer = await request(path, options);
  const said = await answer.text();
  let body = {};
  try { body = said ? JSON.parse(said) : {}; } catch { body = { detail: said.slice(0, 200) }; }
  if (!answer.ok) throw new Refused(answer.status, body);
  return body;
}

export function post(path, body) {
  return ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

// A path of parts, each of them escaped.
export function path(...parts) {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join("");
}
