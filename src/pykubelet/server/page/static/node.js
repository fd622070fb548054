// The node itself: whether it is well, what it has, and what was recorded of it.

import { ask } from "./connection.js";
import { el, write } from "./dom.js";
import { state } from "./state.js";
import { ago, bytes, clock } from "./text.js";

const REFRESH = 10000;

export function nodeView() {
  const heading = el("h1", { tabindex: "-1" }, state.node?.name ?? "Node");
  const ready = el("span", { class: "badge" });
  const facts = el("dl", { class: "facts" });
  const conditions = el("ul", { class: "conditions" });
  const events = el("ol", { class: "moments", "aria-label": "Events of the node" });
  const none = el("p", { class: "empty" });
  const element = el(
    "div", {},
    el("div", { class: "headline" }, heading, ready),
    el(
      "div", { class: "columns" },
      el("section", { "aria-labelledby": "h-facts" }, el("h2", { id: "h-facts" }, "What it is"), facts),
      el("section", { "aria-labelledby": "h-conditions" }, el("h2", { id: "h-conditions" }, "Conditions"), conditions),
    ),
    el("section", { "aria-labelledby": "h-events" }, el("h2", { id: "h-events" }, "Events"), events, none),
  );
  let shown = null;

  async function look() {
    const found = await ask("events").catch(() => null);
    if (!found) return;
    events.replaceChildren(...found.events.map((each) => el(
      "li", { "data-tone": each.kind === "Warning" ? "bad" : "quiet" },
      el("time", { datetime: each.at }, clock(each.at)),
      el("span", {}, el("strong", {}, each.reason), el("span", { class: "detail" }, each.message)),
    )));
    write(none, found.events.length ? "" : "Nothing was recorded.");
  }
  const timer = setInterval(look, REFRESH);
  look();

  function update() {
    const node = state.node;
    if (!node || node === shown) return;
    shown = node;
    write(heading, node.name);
    write(ready, node.isReady ? (node.isSchedulable ? "Ready" : "Ready, takes no new pods") : "Not ready");
    ready.dataset.tone = node.isReady ? "good" : "bad";
    const pairs = [
      ["Addresses", node.addresses.join(", ")], ["System", node.os], ["Kernel", node.kernel], ["Runtime", node.runtime],
      ["Agent", `pykubelet ${node.version}`], ["Speaks for", node.kubelet], ["CPUs", String(node.cpus)],
      ["Memory", bytes(node.memory)], ["Room for", node.allocatable.pods ? `${node.allocatable.pods} pods` : ""],
    ];
    facts.replaceChildren(...pairs.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
    conditions.replaceChildren(...node.conditions.map(condition));
  }

  return { element, heading, title: "Node", update, close: () => clearInterval(timer) };
}

function condition(of) {
  const isGood = (of.type === "Ready") === (of.status === "True");
  const isKnown = of.type === "Ready" || /Pressure$|^NetworkUnavailable$/.test(of.type); // of others nobody knows which is good
  return el(
    "li", {},
    el("span", { class: "dot", "data-tone": !isKnown ? "quiet" : isGood ? "good" : "bad", "aria-hidden": "true" }),
    el("span", {}, el("strong", {}, of.type), ` ${of.status}`, of.since ? el("span", { class: "quiet" }, `, since ${ago(of.since)}`) : null, el("small", {}, of.message || of.reason)),
  );
}
