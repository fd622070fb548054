// The sync loop as a picture, with what flows through it now.

import { arrange, el, mark, write } from "./dom.js";
import { rate, state } from "./state.js";
import { age, many, seconds } from "./text.js";

const HEARD = [
  ["Said", "from sources"], ["RuntimeChanged", "from the runtime"], ["Probed", "from probes"],
  ["ObjectsChanged", "changed objects"], ["Tick", "ticks"], ["Housekeep", "housekeeping"], ["OverLimit", "over a limit"],
];
const PHASES = ["waiting", "running", "stopping", "releasing", "released", "removing"];

export function loopView() {
  const heading = el("h1", { tabindex: "-1" }, "Sync loop");
  const sources = box("Sources", "Where pods come from.");
  const inbox = box("Inbox", "One queue: a total order of all that happens.");
  const loop = box("Sync loop", "Takes one message at a time, and never waits.");
  const workers = box("Workers", "One for each pod; the newest wish counts.");
  const runtime = box("Runtime", "What it is asked to do.");
  const statuses = box("Status manager", "Tells the API server what is true.");
  const arrows = [arrow(), arrow(), arrow(), arrow(), arrow()];
  const gauge = meter("Messages that wait in the inbox");
  const bars = el("div", { class: "phases", "aria-hidden": "true" });
  const segments = new Map(PHASES.map((phase) => [phase, el("span", { "data-phase": phase })]));
  bars.append(...segments.values());
  inbox.body.before(gauge.element);
  workers.body.before(bars);
  const work = doings("Workers at work", "No worker is busy at this moment.");
  const calls = doings("Calls of the runtime", "Nothing is asked of the runtime at this moment.");
  const element = el(
    "div", {},
    el("div", { class: "headline" }, heading, el("span", { class: "quiet" }, "rates are those of the last ten seconds")),
    el(
      "div", { class: "flow" },
      sources.element, arrows[0].element, inbox.element, arrows[1].element, loop.element, arrows[2].element,
      workers.element, arrows[3].element, runtime.element, arrows[4].element, statuses.element,
    ),
    el("div", { class: "columns" }, work.element, calls.element),
  );

  function update() {
    const now = state.loop;
    if (!now) return;
    const all = (of) => Object.values(of.handled).reduce((sum, each) => sum + each, 0);
    const said = (kind) => (of) => of.handled[kind] ?? 0;
    const called = (of) => Object.values(of.done?.calls ?? {}).reduce((sum, each) => sum + each, 0);
    sources.list(now.sources.map((each) => [each.name, many(each.pods, "pod"), each.isReady ? "" : "has not said all yet"]));
    gauge.update(now.inbox, now.inboxSize);
    inbox.list([["waiting", `${now.inbox} of ${now.inboxSize}`]]);
    loop.list([
      ...HEARD.filter(([kind]) => now.handled[kind]).map(([kind, words]) => [words, perSecond(rate(said(kind)))]),
      ["late by", now.lateness > 2 ? seconds(now.lateness) : "nothing"],
    ]);
    workers.list(PHASES.filter((phase) => now.workers[phase] || phase === "running").map((phase) => [phase, String(now.workers[phase])]));
    for (const [phase, segment] of segments) segment.style.flexGrow = String(now.workers[phase] ?? 0);
    const methods = Object.keys(state.done?.calls ?? {})
      .map((name) => [name, rate((of) => of.done?.calls?.[name] ?? 0)])
      .filter(([, value]) => value > 0).sort((one, other) => other[1] - one[1]).slice(0, 5);
    runtime.list([["in flight", String(now.calls.length)], ...methods.map(([name, value]) => [name, perSecond(value)])]);
    const told = rate((of) => of.done?.statuses ?? 0);
    statuses.list([["in line", String(now.statuses.waiting)], ["being sent", String(now.statuses.sending)], ["trying again", String(now.statuses.tryingAgain)], ["sent", perSecond(told)]]);
    [rate(said("Said")), rate(all), rate(all), rate(called), told].forEach((value, index) => arrows[index].update(value));
    work.update(now.work);
    calls.update(now.calls);
  }

  return { element, heading, title: "Sync loop", update, close() {} };
}

const perSecond = (value) => (value === 0 ? "–" : `${value < 10 ? value.toFixed(1) : Math.round(value)}/s`);

function box(title, words) {
  const body = el("dl");
  const rows = new Map();
  return {
    body,
    element: el("section", { class: "box" }, el("h2", {}, title), el("p", { class: "quiet" }, words), body),
    list(entries) {
      arrange(body, rows, entries.map(([name]) => name), (name) => el("div", {}, el("dt", {}, name), el("dd")));
      for (const [name, value, more] of entries) write(rows.get(name).lastChild, more ? `${value}, ${more}` : value);
    },
  };
}

function arrow() {
  const words = el("span", { class: "rate" });
  const element = el("div", { class: "arrow", "data-flows": "no" }, words, el("span", { class: "dots", "aria-hidden": "true" }, el("i"), el("i"), el("i")));
  return {
    element,
    update(value) {
      mark(element, "data-flows", value > 0 ? (value > 5 ? "fast" : "yes") : "no");
      write(words, value > 0 ? perSecond(value) : "");
    },
  };
}

function meter(label) {
  const fill = el("span");
  const element = el("div", { class: "meter", role: "meter", "aria-label": label, "aria-valuemin": "0" }, fill);
  return {
    element,
    update(value, most) {
      mark(element, "aria-valuemax", String(most));
      mark(element, "aria-valuenow", String(value));
      fill.style.width = `${Math.min(100, (100 * value) / most)}%`;
    },
  };
}

function doings(title, nothing) {
  const list = el("ul", { class: "doings" });
  const none = el("p", { class: "empty" });
  const rows = new Map();
  return {
    element: el("section", {}, el("h2", {}, title), list, none),
    update(entries) {
      const keys = entries.map((each) => `${each.what} ${each.uid} ${each.since}`);
      arrange(list, rows, keys, (key) => {
        const each = entries[keys.indexOf(key)];
        const whose = each.name
          ? el("a", { href: `#/pods/${encodeURIComponent(each.namespace)}/${encodeURIComponent(each.name)}` }, each.name)
          : el("span", { class: "quiet" }, "the node");
        return el("li", {}, el("strong", {}, each.what), whose, el("span", { class: "since" }));
      });
      for (const [index, each] of entries.entries()) write(rows.get(keys[index]).lastChild, age(each.since));
      write(none, entries.length ? "" : nothing);
    },
  };
}
