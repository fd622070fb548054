// Which view is shown, and what keeps it up to date.

import { follow, hasSession, leave, SignedOut } from "./connection.js";
import { el, mark, write } from "./dom.js";
import { loopView } from "./loop.js";
import { nodeView } from "./node.js";
import { podView } from "./pod.js";
import { podsView } from "./pods.js";
import { state, take } from "./state.js";
import { many } from "./text.js";

const ANNOUNCE = 5000;
const content = document.getElementById("content");
const announcer = document.getElementById("announcer");
const trouble = document.getElementById("trouble");
const live = document.getElementById("live");
const leaving = document.getElementById("leave");
let view = null;
let isDrawn = true;
let unwell = null;

function chosen() {
  const [, first, namespace, name] = location.hash.split("/").map(decodeURIComponent);
  if (first === "pods" && namespace && name) return ["pods", () => podView(namespace, name)];
  if (first === "loop") return ["loop", loopView];
  if (first === "node") return ["node", nodeView];
  return ["pods", podsView];
}

function show({ moveFocus }) {
  const [name, make] = chosen();
  view?.close();
  view = make();
  content.replaceChildren(view.element);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${view.title} · pykubelet`;
  update();
  if (moveFocus) {
    scrollTo(0, 0);
    view.heading.focus({ preventScroll: true });
  }
}

function update() {
  isDrawn = true;
  view?.update();
  write(document.getElementById("node-name"), state.node?.name ?? "");
  const said = state.node?.trouble;
  const words = [said?.runtime ? `The container runtime does not answer: ${said.runtime}` : "", said?.api ? `The API server is away: ${said.api}` : ""];
  write(trouble, words.filter(Boolean).join(" "));
  trouble.hidden = !trouble.textContent;
}

// However much happens, it is drawn once for each picture of the screen.
function soon() {
  if (!isDrawn) return;
  isDrawn = false;
  requestAnimationFrame(update);
}

// Told to who listens: who is not well, when that changes, and never more often than one can follow.
function announce() {
  const now = [...state.pods.values()].filter((row) => !row.isWell).map((row) => row.name).sort().join(", ");
  if (unwell !== null && now !== unwell) {
    const count = now ? now.split(", ").length : 0;
    write(announcer, count ? `${many(count, "pod")} not well: ${now.slice(0, 200)}` : "All pods are well.");
  }
  if (state.node) unwell = now;
}

function connected(how) {
  mark(live, "data-live", how);
  write(live, how === "live" ? "live" : "connection lost, trying again");
}

function signedOut() {
  leaving.hidden = true;
  view?.close();
  view = null;
  content.replaceChildren(
    el("h1", { tabindex: "-1" }, "Your session has ended"),
    el("p", {}, "Sessions end after an hour without use, and with the agent. A new link is printed on the machine by"),
    el("p", {}, el("code", {}, "pykubelet page")),
  );
  mark(live, "data-live", "lost");
  write(live, "signed out");
  content.firstChild.focus();
}

addEventListener("hashchange", () => {
  if (location.hash === "#content") content.focus();
  else show({ moveFocus: true });
});
addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select");
  if (event.key === "/" && !isTyping && view?.focus) {
    event.preventDefault();
    view.focus.focus();
  }
});
leaving.hidden = !hasSession();
leaving.addEventListener("click", () => leave().finally(() => location.reload()));
show({ moveFocus: false });
setInterval(announce, ANNOUNCE);
setInterval(() => document.hidden || soon(), 1000);
follow((name, message) => {
  take(name, message);
  soon();
}, connected).catch((error) => {
  if (!(error instanceof SignedOut)) throw error;
  signedOut();
});
