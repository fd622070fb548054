// What is known of the node now, and how fast things flow through it.

const WINDOW = 10; // messages, about as many seconds
const RECENT = 60; // readings that are kept here, between those that the agent keeps

export const state = { node: null, loop: null, pods: new Map(), usage: {}, done: null, at: null };
const pictures = [];
const readings = []; // time and usage

export function take(name, message) {
  if (name === "state") {
    state.pods = new Map();
    pictures.length = 0;
  }
  for (const row of message.pods ?? []) state.pods.set(row.uid, row);
  for (const uid of message.gone ?? []) state.pods.delete(uid);
  for (const part of ["node", "loop", "usage", "done"]) if (part in message) state[part] = message[part];
  state.at = message.at;
  if (message.usage && Object.keys(message.usage).length) {
    readings.push([Date.parse(message.at) / 1000, message.usage]);
    if (readings.length > RECENT) readings.shift();
  }
  if (state.loop) {
    pictures.push({ at: Date.parse(message.at) / 1000, handled: state.loop.handled, done: state.done });
    if (pictures.length > WINDOW) pictures.shift();
  }
}

// How often in a second something has been counted of late.
export function rate(count) {
  const first = pictures[0];
  const last = pictures[pictures.length - 1];
  if (!first || last.at - first.at < 0.5) return 0;
  return Math.max(0, (count(last) - count(first)) / (last.at - first.at));
}

// What the agent has kept of the last hour, and what was seen here since.
export function points(history, uid, what) {
  const kept = history.at.map((time, index) => [time, history[what][index]]);
  const newest = kept.length ? kept[kept.length - 1][0] : 0;
  const seen = readings.filter(([time]) => time > newest + 1).map(([time, usage]) => [time, usage[uid]?.[what] ?? null]);
  return [...kept, ...seen];
}

export function find(namespace, name) {
  return [...state.pods.values()].find((row) => row.namespace === namespace && row.name === name);
}

// Those that need somebody to look come first.
export function sorted() {
  const words = (row) => `${row.isWell ? 1 : 0} ${row.namespace}/${row.name}`;
  return [...state.pods.values()].sort((one, other) => (words(one) < words(other) ? -1 : 1));
}
