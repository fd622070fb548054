// The way to the agent. The cookie goes along by itself; the key has to be said, which only this origin can.

const KEY = "pykubelet-page-key";
const PROTOCOL = "base64url.bearer.authorization.k8s.io.";

export class SignedOut extends Error {}

export function keep(key) {
  localStorage.setItem(KEY, key);
}

function headers() {
  const key = localStorage.getItem(KEY);
  return key ? { Authorization: `Bearer ${key}` } : {}; // without one, it may be a client certificate that counts
}

async function request(path, options = {}) {
  const answer = await fetch(path, { headers: headers(), cache: "no-store", redirect: "error", ...options });
  if (answer.status === 401) throw new SignedOut();
  if (!answer.ok) throw new Error((await answer.text()).trim() || `the agent says ${answer.status}`);
  return answer;
}

export async function ask(path, signal) {
  return (await request(path, { signal })).json();
}

export const hasSession = () => localStorage.getItem(KEY) !== null;

export async function leave() {
  await request("leave", { method: "POST" });
  localStorage.removeItem(KEY);
}

// Text as it comes, until it ends or is given up.
export async function listen(path, signal, onText) {
  const reader = (await request(path, { signal })).body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onText(value);
  }
}

// All that happens, for ever: who is cut off comes again, and gets everything anew.
export async function follow(onEvent, onLive) {
  let wait = 500;
  for (;;) {
    let rest = "";
    try {
      await listen("stream", undefined, (text) => {
        const parts = (rest + text).split("\n\n");
        rest = parts.pop();
        for (const part of parts) {
          const lines = part.split("\n");
          const name = lines.find((line) => line.startsWith("event: "))?.slice(7);
          const data = lines.find((line) => line.startsWith("data: "))?.slice(6);
          if (name === "end") throw new SignedOut();
          if (name && data) onEvent(name, JSON.parse(data));
        }
        wait = 500;
        onLive("live");
      });
    } catch (error) {
      if (error instanceof SignedOut) throw error;
    }
    onLive("lost");
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, 10000);
  }
}

export function socket(path) {
  const url = new URL(path, location.href);
  url.protocol = url.protocol === "http:" ? "ws:" : "wss:";
  const protocols = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
  const key = localStorage.getItem(KEY);
  if (key) protocols.push(PROTOCOL + btoa(key).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""));
  const made = new WebSocket(url, protocols);
  made.binaryType = "arraybuffer";
  return made;
}
