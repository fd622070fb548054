// Numbers and times in words.

const SYMBOLS = {
  Running: "●", Starting: "◐", Waiting: "◔", NotReady: "◑", Failing: "✕", Failed: "✕",
  Stopping: "◌", Succeeded: "✓", Gone: "○", Unscheduled: "◔",
};

export const symbol = (state) => SYMBOLS[state] ?? "●";

// What colour a state has; the word is always beside it.
export function tone(row) {
  if (row.state === "Succeeded" || row.state === "Gone") return "quiet";
  if (!row.isWell) return row.state === "Failing" || row.state === "Failed" ? "bad" : "warn";
  return row.state === "Running" ? "good" : "busy";
}

export function seconds(value) {
  if (value === null || value === undefined) return "";
  if (value < 0.0995) return `${Math.round(value * 1000)} ms`;
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  if (value < 172800) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86400)} d`;
}

export function age(time) {
  return time ? seconds(Math.max(0, Math.floor((Date.now() - Date.parse(time)) / 1000))) : "";
}

export function ago(time) {
  const words = age(time);
  return words ? (words === "0 ms" ? "just now" : `${words} ago`) : "";
}

export function clock(time) {
  return new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
}

export function bytes(value) {
  if (value === null || value === undefined) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${value >= 100 || at === 0 ? Math.round(value) : value.toFixed(value >= 10 ? 1 : 2)} ${units[at]}`;
}

export function cores(value) {
  if (value === null || value === undefined) return "";
  if (value >= 10) return value.toFixed(1);
  return value >= 1 ? value.toFixed(2) : `${Math.round(value * 1000)}m`;
}

export function many(count, one, more = `${one}s`) {
  return `${count} ${count === 1 ? one : more}`;
}

export const podLink = (row) => `#/pods/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}`;
