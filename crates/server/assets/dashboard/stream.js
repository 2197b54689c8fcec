// Server-sent events by fetch: unlike EventSource it can show a token.
import { request } from "./api.js";

const PAUSE_MS = 1000;
const SILENCE_MS = 10000;

// Calls `on(name, data)` for each event, and `state(live, why)` as the connection comes and goes. Never ends.
export async function listen(path, on, state) {
  for (;;) {
    let why = null;
    try {
      await once(path, on, state);
    } catch (error) {
      why = error;
    }
    state(false, why);
    await new Promise((done) => setTimeout(done, PAUSE_MS));
  }
}

async function once(path, on, state) {
  const quits = new AbortController();
  const answer = await request(path, { headers: { accept: "text/event-stream" }, signal: quits.signal });
  if (!answer.ok || !answer.body) throw new Error(`the server answered ${answer.status}`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let heard = setTimeout(() => quits.abort(), SILENCE_MS);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(heard);
      heard = setTimeout(() => quits.abort(), SILENCE_MS);
      text += value;
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
        dispatch(text.slice(0, end), on);
        state(true);
      }
    }
  } finally {
    clearTimeout(heard);
    quits.abort();
  }
}

function dispatch(event, on) {
  let name = "message";
  const data = [];
  for (const line of event.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data.push(line.slice(6));
  }
  if (data.length) on(name, JSON.parse(data.join("\n")));
}
