// What a container writes, as it writes it: the last lines at first, then all that follows, bounded.

import { listen, SignedOut } from "./connection.js";
import { el, write } from "./dom.js";

const TAIL = 500;
const MOST = 1 << 20; // characters that are kept
const LARGEST = 65536;
// Colours and the like would only be noise here. A carriage return begins the line anew.
const CONTROLS = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?=\n)/g;

export function logsPanel(pod) {
  const choice = el("select", { id: "log-container", change: () => start() });
  const previous = el("input", { type: "checkbox", id: "log-previous", change: () => start() });
  const follow = el("input", { type: "checkbox", id: "log-follow", checked: true, change: () => follow.checked && bottom() });
  const note = el("span", { class: "quiet", role: "status" });
  const text = el("pre", { class: "log", tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Log", scroll: scrolled });
  const element = el(
    "div", {},
    el(
      "div", { class: "tools" },
      el("label", { for: "log-container" }, "Container"), choice,
      el("label", {}, previous, "before its last restart"),
      el("label", {}, follow, "stay at the end"),
      note,
    ),
    text,
  );
  let given = null;
  let size = 0;
  let known = "";
  let attempt = "";

  function update(row) {
    const containers = row?.containers ?? [];
    const names = containers.map((each) => each.name).join("\n");
    if (names !== known) {
      known = names;
      const chosen = choice.value;
      choice.replaceChildren(...containers.map((each) => el("option", { value: each.name }, each.name)));
      choice.value = containers.some((each) => each.name === chosen) ? chosen : first(containers)?.name ?? "";
      attempt = "";
    }
    const now = containers.find((each) => each.name === choice.value);
    const key = now ? `${now.name} ${now.restarts} ${now.state === "waiting" && !now.restarts}` : "none";
    if (key !== attempt && !(previous.checked && attempt)) {
      attempt = key;
      start();
    }
  }

  async function start() {
    given?.abort();
    const mine = (given = new AbortController());
    text.replaceChildren();
    size = 0;
    if (!choice.value) return write(note, "The pod is gone, and its logs with it.");
    write(note, "");
    const query = `tailLines=${TAIL}${previous.checked ? "&previous=true" : "&follow=true"}`;
    const path = [pod.namespace, pod.name, choice.value].map(encodeURIComponent).join("/");
    try {
      await listen(`../containerLogs/${path}?${query}`, mine.signal, add);
      write(note, "That is all: the container has ended.");
    } catch (error) {
      if (mine.signal.aborted) return;
      write(note, error instanceof SignedOut ? "The session has ended." : error.message);
    }
  }

  function add(piece) {
    for (let at = 0; at < piece.length; at += LARGEST) {
      const shown = piece.slice(at, at + LARGEST).replace(CONTROLS, "");
      text.append(el("span", {}, shown));
      size += shown.length;
    }
    while (size > MOST) {
      size -= text.firstChild.textContent.length;
      text.firstChild.remove();
    }
    if (follow.checked) bottom();
  }

  function bottom() {
    text.scrollTop = text.scrollHeight;
  }

  // Who scrolls up wants to read; who comes back to the end wants to follow.
  function scrolled() {
    follow.checked = text.scrollHeight - text.scrollTop - text.clientHeight < 30;
  }

  update(pod);
  return { element, update, close: () => given?.abort() };
}

const first = (containers) => containers.find((each) => each.kind === "container") ?? containers[0];
