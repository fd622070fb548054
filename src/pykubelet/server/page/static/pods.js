// All pods of the node, those that need somebody first.

import { ask } from "./connection.js";
import { chart } from "./charts.js";
import { arrange, el, mark, write } from "./dom.js";
import { points, sorted, state } from "./state.js";
import { age, bytes, cores, many, podLink, symbol, tone } from "./text.js";

const COLUMNS = ["Pod", "State", "Ready", "Restarts", "CPU", "Memory", "Age"];
const HISTORY = 30000;

export function badge() {
  const sign = el("span", { "aria-hidden": "true" });
  const word = el("span");
  const element = el("span", { class: "badge" }, sign, word);
  return {
    element,
    update(row) {
      mark(element, "data-tone", tone(row));
      write(sign, symbol(row.state));
      // kubectl's word where it says more than ours
      write(word, ["Failing", "Waiting", "Starting", "NotReady"].includes(row.state) ? row.reason || row.state : row.state);
    },
  };
}

export function podsView() {
  const known = new Map();
  const rows = new Map();
  const body = el("tbody", { role: "rowgroup" });
  const table = el(
    "table", { class: "pods", role: "table", "aria-label": "Pods" },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, COLUMNS.map((name) => el("th", { scope: "col", role: "columnheader" }, name)))),
    body,
  );
  const filter = el("input", { type: "search", id: "filter", placeholder: "Filter by name, namespace or state", autocomplete: "off", spellcheck: "false", input: () => update() });
  const count = el("span", { class: "quiet" });
  const none = el("p", { class: "empty" });
  const heading = el("h1", { tabindex: "-1" }, "Pods");
  const cpu = chart("CPU of the node", cores);
  const memory = chart("Memory of the node", bytes);
  const element = el(
    "div", {},
    el("div", { class: "headline" }, heading, count),
    el("div", { class: "figures" }, cpu.element, memory.element),
    el("div", { class: "tools" }, el("label", { for: "filter", class: "unseen" }, "Filter"), filter),
    table, none,
  );
  let history = { at: [], cpu: [], memory: [] };

  async function look() {
    history = await ask("usage").catch(() => history);
    update();
  }
  const timer = setInterval(look, HISTORY);
  look();

  function update() {
    const wanted = filter.value.trim().toLowerCase();
    const found = sorted().filter((row) => !wanted || words(row).includes(wanted));
    for (const row of found) known.set(row.uid, row);
    arrange(body, rows, found.map((row) => row.uid), (uid) => made(known.get(uid)));
    for (const row of found) rows.get(row.uid).fill(row);
    const unwell = [...state.pods.values()].filter((row) => !row.isWell).length;
    write(count, state.node ? `${many(state.pods.size, "pod")}${unwell ? `, ${unwell} not well` : state.pods.size ? ", all well" : ""}` : "");
    table.hidden = !found.length;
    write(none, found.length || !state.node ? "" : wanted ? "No pod matches." : "No pods run here. Try: kubectl run hello --image=busybox:1.36 -- sleep 1000");
    cpu.update(points(history, "", "cpu"), state.node?.cpus);
    memory.update(points(history, "", "memory"), state.node?.memory);
  }

  return { element, heading, title: "Pods", update, close: () => clearInterval(timer), focus: filter };
}

const words = (row) => `${row.namespace}/${row.name} ${row.state} ${row.reason}`.toLowerCase();

function made(row) {
  const sign = badge();
  const cell = (label, ...children) => el("td", { role: "cell", "data-label": label }, ...children);
  const link = el("a", { href: podLink(row) }, row.name);
  const sentence = el("span", { class: "sentence" });
  const cells = { ready: cell("Ready"), restarts: cell("Restarts"), cpu: cell("CPU"), memory: cell("Memory"), age: cell("Age") };
  const element = el(
    "tr", { role: "row" },
    el("th", { scope: "row", role: "rowheader" }, link, " ", el("span", { class: "namespace" }, row.namespace), " ", sentence),
    cell("State", sign.element),
    ...Object.values(cells),
  );
  element.fill = (now) => {
    sign.update(now);
    mark(element, "data-tone", tone(now));
    write(sentence, now.isWell ? "" : now.sentence);
    sentence.hidden = now.isWell;
    write(cells.ready, `${now.ready}/${now.total}`);
    write(cells.restarts, String(now.restarts));
    const used = state.usage[now.uid] ?? {};
    write(cells.cpu, cores(used.cpu) || "–");
    write(cells.memory, bytes(used.memory) || "–");
    write(cells.age, age(now.createdAt ?? now.startedAt) || "–");
  };
  return element;
}
