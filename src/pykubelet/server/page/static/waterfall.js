// Where the time of a pod's start went: a row for each stage. What the pod had to wait for is solid and makes up the
// critical path; what a stage did while another was waited for is faint.

import { el } from "./dom.js";
import { seconds } from "./text.js";

const STAGES = {
  waiting: "Waits for its worker", volumes: "Volumes", sandbox: "Sandbox", pull: "Pull", init: "Init container",
  start: "Start", ready: "Until ready",
};
const SAID = new Set(["pull", "init", "start"]);

export function waterfall(story) {
  const path = story.criticalPath;
  if (!path.length) return el("p", { class: "quiet" }, "Nothing of its start is known: the journal begins later.");
  const begin = Date.parse(path[0].began) / 1000;
  const bars = path.map((span) => bar(span, begin));
  const reached = Math.max(...bars.map((each) => each.end));
  if (story.readyAfter === null && !["Gone", "Succeeded", "Failed", "Stopping"].includes(story.state)) {
    bars.push({
      label: "Not ready yet", what: "", start: reached, end: Math.max(reached, Date.parse(story.toldAt) / 1000 - begin),
      early: reached, isOpen: true,
    });
  }
  const whole = Math.max(0.001, ...bars.map((each) => each.end));
  const longest = bars.reduce((one, other) => (length(other) > length(one) ? other : one));
  return el(
    "div", {},
    el("p", {}, summary(story, longest, whole)),
    el("ol", { class: "waterfall" }, bars.map((each) => row(each, whole, each === longest))),
    el(
      "p", { class: "legend" },
      el("span", {}, el("i", { class: "swatch path" }), "critical path: what the pod waited for"),
      bars.some((each) => each.early < each.start) ? el("span", {}, el("i", { class: "swatch own" }), "the same work, while another was waited for") : null,
    ),
  );
}

const length = (bar) => bar.end - bar.start;

function bar(span, begin) {
  const start = Date.parse(span.began) / 1000 - begin;
  const end = start + span.seconds;
  const early = span.took === undefined ? start : Math.max(0, Math.min(start, end - span.took));
  return { label: STAGES[span.stage] ?? span.stage, what: SAID.has(span.stage) ? span.what : "", start, end, early };
}

function summary(story, longest, whole) {
  const name = `${longest.label.toLowerCase()}${longest.what ? ` (${longest.what})` : ""}`;
  if (story.readyAfter === null) return longest.isOpen ? "It has not been ready yet." : `Most of the time so far: ${name}.`;
  const part = Math.round((100 * length(longest)) / whole);
  return `Ready after ${seconds(story.readyAfter)}; ${part} % of that: ${name}.`;
}

function row(of, whole, isLongest) {
  const own = el("span", { class: "bar own" });
  const path = el("span", { class: `bar path${of.isOpen ? " open" : ""}` });
  place(own, of.early, of.end, whole);
  place(path, of.start, of.end, whole);
  return el(
    "li", { class: isLongest ? "longest" : null },
    el("span", { class: "stage" }, of.label, " ", of.what ? el("small", { title: of.what }, of.what) : null),
    el("span", { class: "track", "aria-hidden": "true" }, own, path),
    el("span", { class: "took" }, seconds(length(of))),
  );
}

function place(element, start, end, whole) {
  const width = Math.max(1, (100 * (end - start)) / whole);
  element.style.left = `${Math.min(100 - width, (100 * start) / whole)}%`;
  element.style.width = `${width}%`;
}
