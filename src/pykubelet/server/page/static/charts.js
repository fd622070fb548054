// The last hour as a small picture: an area, its limit, and the figures beside it.

import { el, svg } from "./dom.js";

const WIDTH = 300;
const HEIGHT = 64;
const HOUR = 3600;
const SHORTEST = 300; // seconds that are shown of what has just begun
const GAP = 95; // seconds without a point: nobody looked

export function chart(title, format) {
  const now = el("strong");
  const most = el("span");
  const since = el("span");
  const picture = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  const element = el(
    "figure", { class: "figure" },
    el("figcaption", {}, el("span", {}, title), now),
    picture,
    el("div", { class: "axis" }, since, most, el("span", {}, "now")),
  );
  const update = (points, limit) => draw({ picture, now, most, since }, { title, format, points, limit });
  update([], null);
  return { element, update };
}

// `points` are pairs of a time and a value, the newest last.
function draw({ picture, now, most, since }, { title, format, points, limit }) {
  const end = Date.now() / 1000;
  points = points.filter(([time, value]) => value !== null && time > end - HOUR);
  const latest = points.length ? points[points.length - 1][1] : null;
  const span = Math.min(HOUR, Math.max(SHORTEST, points.length ? end - points[0][0] : 0));
  const peak = Math.max(0, ...points.map(([, value]) => value));
  const top = Math.max(peak, limit ? Math.min(limit, peak * 4) : 0) * 1.15 || 1;
  const x = (time) => ((time - end + span) / span) * WIDTH;
  const y = (value) => HEIGHT - (value / top) * HEIGHT;
  const parts = [];
  for (const run of runs(points)) {
    const line = run.map(([time, value]) => `${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join(" L");
    const last = x(run[run.length - 1][0]).toFixed(1);
    parts.push(svg("path", { class: "area", d: `M${x(run[0][0]).toFixed(1)} ${HEIGHT} L${line} L${last} ${HEIGHT} Z` }));
    parts.push(svg("path", { class: "line", d: `M${line}` }));
  }
  if (limit && limit <= top) parts.push(svg("path", { class: "limit", d: `M0 ${y(limit).toFixed(1)} H${WIDTH}` }));
  picture.replaceChildren(...parts);
  now.textContent = latest === null ? "–" : format(latest) + (limit ? ` of ${format(limit)}` : "");
  since.textContent = span > HOUR - 60 ? "1 h ago" : `${Math.round(span / 60)} min ago`;
  most.textContent = points.length > 1 ? `most ${format(peak)}` : "no figures yet";
  picture.setAttribute("aria-label", `${title} in the last hour: now ${now.textContent}, ${most.textContent}`);
}

function runs(points) {
  const found = [];
  for (const point of points) {
    const run = found[found.length - 1];
    if (run && point[0] - run[run.length - 1][0] < GAP) run.push(point);
    else found.push([point]);
  }
  return found.filter((run) => run.length > 1);
}
