// A shell in a container: keys go out, the screen comes back.

import { socket } from "./connection.js";
import { el, write } from "./dom.js";
import { colour, Screen } from "./screen.js";

const SHELL = ["sh", "-c", "command -v bash >/dev/null && exec bash || exec sh"];
const [STDIN, STDOUT, STDERR, STATUS, RESIZE] = [0, 1, 2, 3, 4];
const KEYS = {
  Enter: "\r", Backspace: "\x7f", Escape: "\x1b", Tab: "\t", Delete: "\x1b[3~", Insert: "\x1b[2~", PageUp: "\x1b[5~",
  PageDown: "\x1b[6~", F1: "\x1bOP", F2: "\x1bOQ", F3: "\x1bOR", F4: "\x1bOS", F5: "\x1b[15~", F7: "\x1b[18~",
  F8: "\x1b[19~", F9: "\x1b[20~", F10: "\x1b[21~",
};
const ARROWS = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };
const SMALLEST = [20, 5];

export function terminalPanel(pod) {
  const choice = el("select", { id: "terminal-container" });
  const button = el("button", { type: "button", click: () => (line ? line.close() : open()) }, "Open a shell");
  const note = el("span", { class: "quiet", role: "status" });
  const input = el("textarea", { class: "keys", "aria-label": "Terminal input", autocapitalize: "off", autocomplete: "off", autocorrect: "off", spellcheck: "false", rows: "1" });
  const lines = el("pre", { class: "screen" });
  const box = el("div", { class: "terminal", role: "group", "aria-label": "Terminal", hidden: true, click: () => String(getSelection()) || input.focus() }, lines, input);
  const element = el(
    "div", {},
    el("div", { class: "tools" }, el("label", { for: "terminal-container" }, "Container"), choice, button, note),
    box,
    el("p", { class: "quiet hint" }, "Keys go to the shell while it has the focus. Shift+Tab leaves it."),
  );
  const view = new View(lines, input);
  let line = null;
  let screen = null;
  let names = "";

  function update(row) {
    const running = (row?.containers ?? []).filter((each) => each.state === "running").map((each) => each.name);
    if (running.join("\n") === names) return;
    names = running.join("\n");
    const chosen = choice.value;
    choice.replaceChildren(...running.map((name) => el("option", { value: name }, name)));
    if (running.includes(chosen)) choice.value = chosen;
    button.disabled = !running.length && !line;
    if (!line) write(note, running.length ? "" : "No container runs.");
  }

  function open() {
    box.hidden = false;
    const [columns, rows] = view.room();
    screen = new Screen(columns, rows, (text) => send(STDIN, text));
    view.show(screen);
    const query = new URLSearchParams([["input", "1"], ["output", "1"], ["tty", "1"], ...SHELL.map((word) => ["command", word])]);
    const path = [pod.namespace, pod.name, choice.value].map(encodeURIComponent).join("/");
    const mine = (line = socket(`../exec/${path}?${query}`));
    let said = "";
    mine.onopen = () => {
      write(note, "");
      size();
      input.focus();
    };
    mine.onmessage = ({ data }) => {
      const channel = new Uint8Array(data, 0, 1)[0];
      const rest = new Uint8Array(data, 1);
      if (channel === STDOUT || channel === STDERR) {
        screen.write(rest);
        view.draw();
      } else if (channel === STATUS) said = ended(rest);
    };
    mine.onclose = () => {
      if (line !== mine) return;
      line = null;
      write(button, "Open a shell");
      write(note, said || "The connection has ended. Does the container have a shell, and may you use it?");
      button.disabled = !names;
    };
    write(button, "Close");
    write(note, "Connecting …");
  }

  function send(channel, data) {
    if (line?.readyState !== WebSocket.OPEN) return;
    const encoded = typeof data === "string" ? new TextEncoder().encode(data) : data;
    const message = new Uint8Array(encoded.length + 1);
    message[0] = channel;
    message.set(encoded, 1);
    line.send(message);
  }

  function size() {
    if (!screen || box.hidden) return;
    const [columns, rows] = view.room();
    if (columns !== screen.columns || rows !== screen.rows) screen.resize(columns, rows);
    send(RESIZE, JSON.stringify({ Width: columns, Height: rows }));
    view.draw();
  }

  input.addEventListener("keydown", (event) => {
    const text = keyed(event, screen);
    if (text === null) return;
    event.preventDefault();
    view.follow();
    send(STDIN, text);
  });
  input.addEventListener("input", (event) => {
    if (event.isComposing) return;
    send(STDIN, input.value.replaceAll("\n", "\r"));
    input.value = "";
  });
  input.addEventListener("paste", (event) => {
    event.preventDefault();
    // what is pasted must not be able to end the paste and go on as typed
    const text = event.clipboardData.getData("text/plain").replaceAll("\x1b", "").replace(/\r?\n/g, "\r");
    send(STDIN, screen?.hasBracketedPaste ? `\x1b[200~${text}\x1b[201~` : text);
  });
  const watcher = new ResizeObserver(() => size());
  watcher.observe(box);
  update(pod);
  return {
    element,
    update,
    close() {
      watcher.disconnect();
      const open = line;
      line = null;
      open?.close();
    },
  };
}

// What a key says; null: it is the browser's own, or text that comes by itself.
export function keyed(event, screen) {
  if (event.isComposing || event.metaKey || (event.key === "Tab" && event.shiftKey)) return null;
  if (event.ctrlKey && event.shiftKey) return null; // copying and pasting
  if (event.key in ARROWS) {
    const how = 1 + (event.shiftKey ? 1 : 0) + (event.altKey ? 2 : 0) + (event.ctrlKey ? 4 : 0);
    if (how > 1) return `\x1b[1;${how}${ARROWS[event.key]}`;
    return `\x1b${screen?.hasApplicationKeys ? "O" : "["}${ARROWS[event.key]}`;
  }
  if (event.key in KEYS) return (event.altKey ? "\x1b" : "") + KEYS[event.key];
  if ([...event.key].length !== 1) return null;
  if (event.ctrlKey && !event.altKey) {
    const code = event.key.toUpperCase().charCodeAt(0);
    if (event.key === " ") return "\0";
    return code >= 64 && code < 96 ? String.fromCharCode(code - 64) : null;
  }
  if (event.altKey && !event.ctrlKey) return `\x1b${event.key}`;
  return event.ctrlKey || event.altKey ? null : event.key;
}

function ended(bytes) {
  try {
    const status = JSON.parse(new TextDecoder().decode(bytes));
    if (status.status === "Success") return "The shell has ended.";
    const code = status.details?.causes?.find((each) => each.reason === "ExitCode")?.message;
    return code ? `The shell has ended with code ${code}.` : status.message;
  } catch {
    return "";
  }
}

// --- the screen as elements

class View {
  constructor(lines, input) {
    this.lines = lines;
    this.input = input;
    this.screen = null;
    this.isDue = false;
  }

  show(screen) {
    this.screen = screen;
    this.lines.replaceChildren();
    this.rows = [];
    this.draw();
  }

  // Columns and rows that fit.
  room() {
    const probe = el("span", {}, "M".repeat(50));
    this.lines.append(probe);
    const { width, height } = probe.getBoundingClientRect();
    probe.remove();
    const box = this.lines.parentElement;
    const style = getComputedStyle(box);
    const inner = box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    this.cell = [width / 50, height];
    const rows = Math.floor((box.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom)) / height);
    return [Math.max(SMALLEST[0], Math.floor(inner / (width / 50)) || 80), Math.max(SMALLEST[1], rows || 24)];
  }

  follow() {
    const box = this.lines.parentElement;
    box.scrollTop = box.scrollHeight;
  }

  draw() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.paint();
    });
  }

  paint() {
    const { screen, lines } = this;
    const box = lines.parentElement;
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    const added = Math.min(screen.scrolled, screen.above.length);
    for (const line of screen.above.slice(screen.above.length - added)) lines.insertBefore(drawn(line, -1), this.rows[0] ?? null);
    screen.scrolled = 0;
    while (lines.childElementCount - this.rows.length > screen.above.length) lines.firstChild.remove();
    while (this.rows.length > screen.rows) this.rows.pop().remove();
    for (let y = 0; y < screen.rows; y += 1) {
      if (this.rows[y] && !screen.dirty.has(y)) continue;
      const row = drawn(screen.lines[y], y === screen.y && screen.isCursorShown ? screen.x : -1);
      if (this.rows[y]) this.rows[y].replaceWith(row);
      else lines.append(row);
      this.rows[y] = row;
    }
    screen.dirty.clear();
    if (isAtEnd) this.follow();
    const cursor = this.rows[screen.y];
    this.input.style.top = `${cursor.offsetTop}px`;
    this.input.style.left = `${cursor.offsetLeft + screen.x * this.cell[0]}px`;
  }
}

function drawn(line, cursor) {
  const row = el("div");
  let run = "";
  let style = null;
  const flush = () => {
    if (run) row.append(styled(run, style));
    run = "";
  };
  const end = Math.max(line.findLastIndex((cell) => cell.text !== " " || cell.style.bg !== null || cell.style.inverse), cursor);
  for (const [x, cell] of line.slice(0, end + 1).entries()) {
    if (x === cursor) {
      flush();
      const here = styled(cell.text || " ", cell.style);
      here.classList.add("cursor");
      row.append(here);
      continue;
    }
    if (cell.style !== style) {
      flush();
      style = cell.style;
    }
    run += cell.text;
  }
  flush();
  return row;
}

function styled(text, style) {
  const element = el("span", {}, text);
  const [fg, bg] = style.inverse ? [style.bg ?? "var(--terminal)", style.fg ?? "var(--terminal-text)"] : [style.fg, style.bg];
  if (fg !== null) element.style.color = colour(fg);
  if (bg !== null) element.style.backgroundColor = colour(bg);
  for (const name of ["bold", "dim", "italic", "underline"]) if (style[name]) element.classList.add(name);
  return element;
}
