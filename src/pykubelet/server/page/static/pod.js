// One pod: what is wrong and what to do about it, where its time went, its containers, logs, terminal and events.

import { ask } from "./connection.js";
import { chart } from "./charts.js";
import { el, mark, write } from "./dom.js";
import { logsPanel } from "./logs.js";
import { badge } from "./pods.js";
import { find, points } from "./state.js";
import { ago, bytes, clock, cores, seconds } from "./text.js";
import { waterfall } from "./waterfall.js";

const REFRESH = 5000;
const SOONEST = 1000;
const COMMAND = /^(kubectl|pykubelet|crictl|docker|nerdctl) /;

export function podView(namespace, name) {
  const sign = badge();
  sign.element.hidden = true;
  const heading = el("h1", { tabindex: "-1" }, name);
  const sentence = el("p", { class: "lead" });
  const advice = el("ul", { class: "advice" });
  const facts = el("p", { class: "quiet" });
  const path = el("div");
  const containers = el("div", { class: "cards" });
  const cpu = chart("CPU", cores);
  const memory = chart("Memory", bytes);
  const panels = tabs([
    ["logs", "Logs", (row) => logsPanel(row)],
    ["terminal", "Terminal", terminalPanel],
    ["events", "Events", eventsPanel],
    ["timeline", "Timeline", timelinePanel],
  ]);
  const rest = el(
    "div", { hidden: true, class: "stack" },
    el(
      "div", { class: "columns" },
      el("section", { "aria-labelledby": "h-time" }, el("h2", { id: "h-time" }, "Where the time went"), path),
      el("section", { "aria-labelledby": "h-use" }, el("h2", { id: "h-use" }, "Resource use"), el("div", { class: "figures" }, cpu.element, memory.element)),
    ),
    el("section", { "aria-labelledby": "h-containers" }, el("h2", { id: "h-containers" }, "Containers"), containers),
    panels.element,
  );
  const element = el(
    "div", {},
    el("p", { class: "back" }, el("a", { href: "#/" }, "← All pods")),
    el("div", { class: "headline" }, heading, sign.element, el("span", { class: "quiet" }, namespace)),
    sentence, advice, facts, rest,
  );
  let details = null;
  let history = { at: [], cpu: [], memory: [] };
  let last = null;
  let due = 0;
  let isAsking = false;
  const address = `pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

  async function look() {
    isAsking = true;
    due = Date.now() + REFRESH;
    try {
      details = await ask(address);
      history = await ask(`usage/${encodeURIComponent(details.story.uid)}`);
      show();
    } catch (error) {
      if (!details) write(sentence, error.message);
    } finally {
      isAsking = false;
    }
  }

  function update() {
    const row = find(namespace, name) ?? null;
    if (row !== last) due = Math.min(due, Date.now());
    last = row;
    if (!isAsking && Date.now() >= due) {
      look();
      due = Math.max(due, Date.now() + SOONEST);
    }
    if (row) figures(row);
  }

  function figures(row) {
    cpu.update(points(history, row.uid, "cpu"), row.cpuLimit);
    memory.update(points(history, row.uid, "memory"), row.memoryLimit);
  }

  function show() {
    const { story, pod } = details;
    rest.hidden = sign.element.hidden = false;
    containers.parentElement.hidden = !pod;
    sign.update(pod ?? { state: story.state, isWell: story.isWell, reason: story.state });
    write(sentence, story.sentence);
    mark(sentence, "data-tone", story.isWell ? "good" : "bad");
    advice.replaceChildren(...story.advice.map((text) => el("li", {}, COMMAND.test(text) ? el("code", {}, text) : text)));
    advice.hidden = !story.advice.length;
    write(facts, told(story, pod));
    path.replaceChildren(waterfall(story));
    containers.replaceChildren(...(pod ? pod.containers.map((each) => card(each, details, story)) : []));
    figures(pod ?? { uid: story.uid });
    panels.update(pod, details);
  }

  return { element, heading, title: name, update, close: () => panels.close() };
}

function told(story, pod) {
  if (!pod) return `on ${story.node}`;
  const from = { file: "a manifest on this machine", http: "a manifest at a URL", api: "the API server" }[pod.source] ?? pod.source;
  return [`from ${from}`, pod.ip, pod.qos].filter(Boolean).join(" · ");
}

function card(container, details, story) {
  const probes = details.probes.filter((each) => each.container === container.name);
  const words = story.lastWords[container.name];
  const kind = { init: "init container", sidecar: "sidecar", ephemeral: "ephemeral container" }[container.kind];
  const toneOf = container.state === "running" ? (container.isReady ? "good" : "busy") : container.exitCode ? "bad" : "quiet";
  return el(
    "article", { class: "card" },
    el("h3", {}, container.name, " ", kind ? el("small", {}, kind) : null),
    el("p", { class: "badge", "data-tone": toneOf }, containerWords(container)),
    el("dl", {}, ...facts([
      ["Image", container.image],
      ["Restarts", container.restarts ? String(container.restarts) : ""],
      ["Since", container.state === "running" && container.startedAt ? ago(container.startedAt).replace(" ago", "") : ""],
      ["Last end", container.exitCode === null ? "" : `code ${container.exitCode}, ${ago(container.finishedAt)}`],
      ["Message", container.message],
    ])),
    probes.length ? el("ul", { class: "probes", "aria-label": "Probes" }, probes.map(probe)) : null,
    words ? el("figure", { class: "words" }, el("figcaption", {}, "Last words"), el("pre", { tabindex: "0" }, words)) : null,
  );
}

function containerWords(of) {
  if (of.state === "running") return of.isReady || of.kind === "init" ? "running" : "running, not ready";
  return of.reason || of.state;
}

const facts = (pairs) => pairs.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));

function probe(of) {
  const result = of.result ? `${of.result}${of.times > 1 ? `, ${of.times} times` : ""}, ${ago(of.at)}, took ${seconds(of.seconds)}` : "not asked yet";
  const toneOf = of.result === "Success" ? "good" : of.result ? "bad" : "quiet";
  return el(
    "li", {},
    el("span", { class: "dot", "data-tone": toneOf, "aria-hidden": "true" }),
    el("span", {}, `${of.kind}: ${result}`, el("small", {}, `${of.asks}, every ${of.period} s`)),
  );
}

// --- the panels below

function tabs(of) {
  const list = el("div", { role: "tablist", "aria-label": "More of this pod", class: "tabs" });
  const panel = el("div", { role: "tabpanel", id: "panel", class: "panel", tabindex: "0" });
  const buttons = of.map(([id, name], index) =>
    el("button", { role: "tab", type: "button", id: `tab-${id}`, "aria-controls": "panel", click: () => choose(index), keydown: (event) => step(event, index) }, name),
  );
  list.append(...buttons);
  let current = null;
  let chosen = 0;
  let latest = [null, null];

  function choose(index) {
    chosen = index;
    current?.close?.();
    current = null;
    panel.replaceChildren();
    buttons.forEach((button, at) => {
      button.setAttribute("aria-selected", String(at === index));
      button.tabIndex = at === index ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", buttons[index].id);
    fill();
  }

  function step(event, index) {
    const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: of.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = (to + of.length) % of.length;
    buttons[next].focus();
    choose(next);
  }

  function fill() {
    const [row, details] = latest;
    if (!details) return;
    if (!current) {
      current = of[chosen][2](row, details);
      panel.replaceChildren(current.element);
    }
    current.update?.(row, details);
  }

  choose(0);
  return {
    element: el("section", { "aria-label": "Logs, terminal, events, timeline" }, list, panel),
    update(row, details) {
      latest = [row, details];
      fill();
    },
    close: () => current?.close?.(),
  };
}

function terminalPanel(row) {
  const element = el("div", {}, el("p", { class: "quiet" }, "Loading …"));
  let panel = null;
  let isClosed = false;
  import("./terminal.js").then((module) => { // few open it
    if (isClosed) return;
    panel = module.terminalPanel(row);
    element.replaceChildren(panel.element);
  });
  return {
    element,
    update: (now) => panel?.update(now),
    close() {
      isClosed = true;
      panel?.close();
    },
  };
}

function listPanel(label, items, empty) {
  const list = el("ol", { class: "moments", "aria-label": label });
  const none = el("p", { class: "empty" });
  let shown = "";
  return {
    element: el("div", {}, list, none),
    update(_, details) {
      const found = items(details);
      const text = JSON.stringify(found.map((each) => each.slice(0, 5)));
      if (text === shown) return;
      shown = text;
      list.replaceChildren(...found.map(([at, what, detail, toneOf, times]) => el(
        "li", { "data-tone": toneOf },
        el("time", { datetime: at }, clock(at)),
        el("span", {}, el("strong", {}, what), times > 1 ? el("small", {}, ` ${times} times`) : null, el("span", { class: "detail" }, detail)),
      )));
      write(none, found.length ? "" : empty);
    },
  };
}

const eventsPanel = () => listPanel(
  "Events",
  (details) => details.events.map((each) => [each.at, each.reason, each.message, each.kind === "Warning" ? "bad" : "quiet", each.times]),
  "Nothing was recorded.",
);

const timelinePanel = () => listPanel(
  "Timeline",
  (details) => [...details.story.timeline].reverse().map((each) => [
    each.at, each.container ? `${each.container} ${each.what}` : each.what,
    each.seconds === undefined ? "" : `took ${seconds(each.seconds)}`, each.isTrouble ? "bad" : "quiet", each.times ?? 1,
  ]),
  "Nothing is known of it.",
);

