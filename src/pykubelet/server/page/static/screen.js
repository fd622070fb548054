// A terminal's screen: bytes in, cells out. As much of VT100 and xterm as shells, editors and pagers use; what is not
// known is read over. Nothing a program writes can do more than change cells: titles, clipboards and links are ignored.

const SCROLLBACK = 2000;
const LONGEST = 256; // of a control sequence
const GRAPHICS = "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";
const PLAIN = Object.freeze({ fg: null, bg: null, bold: false, dim: false, italic: false, underline: false, inverse: false });
const BLANK = Object.freeze({ text: " ", style: PLAIN });
const WIDE = /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{1f300}-\u{1f64f}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]/u;
const COMBINING = /\p{Mn}|\p{Me}|[\u200b-\u200d\ufe0f]/u;

export class Screen {
  // `reply` is told what a program is answered when it asks where the cursor is, or who we are.
  constructor(columns, rows, reply) {
    this.columns = columns;
    this.rows = rows;
    this.dirty = new Set();
    this.above = []; // what has scrolled out
    this.scrolled = 0; // how many lines have done so since somebody looked
    this.reply = reply;
    this.decoder = new TextDecoder();
    this.reset();
  }

  reset() {
    this.lines = Array.from({ length: this.rows }, () => this.blankLine());
    this.other = null; // the main screen, while a program has the alternate one
    this.x = this.y = 0;
    this.style = PLAIN;
    this.saved = { x: 0, y: 0, style: PLAIN };
    this.top = 0;
    this.bottom = this.rows - 1;
    this.wraps = true;
    this.isPending = false; // the last column is full, and the next letter wraps
    this.isCursorShown = true;
    this.hasApplicationKeys = false;
    this.hasBracketedPaste = false;
    this.inserts = false;
    this.charsets = ["B", "B"];
    this.charset = 0;
    this.state = "ground";
    this.sequence = "";
    this.last = " ";
    this.touchAll();
  }

  write(data) {
    for (const letter of this.decoder.decode(data, { stream: true })) this.take(letter);
  }

  resize(columns, rows) {
    const fit = (lines) => {
      for (const line of lines) {
        line.length = Math.min(line.length, columns);
        while (line.length < columns) line.push(BLANK);
      }
      while (lines.length < rows) lines.push(Array(columns).fill(BLANK));
    };
    while (this.lines.length > rows && this.y >= rows) {
      const line = this.lines.shift();
      if (!this.other) this.keep(line);
      this.y -= 1;
    }
    this.lines.length = Math.min(this.lines.length, rows);
    fit(this.lines);
    if (this.other) {
      this.other.lines.length = Math.min(this.other.lines.length, rows);
      fit(this.other.lines);
    }
    this.columns = columns;
    this.rows = rows;
    this.top = 0;
    this.bottom = rows - 1;
    this.move(this.x, this.y);
    this.touchAll();
  }

  // --- the parser

  take(letter) {
    const code = letter.codePointAt(0);
    if (this.state === "string") {
      // until BEL or ESC \, and never for ever: a program that ends in the middle must not silence the next
      if (letter === "\x07" || code === 0x9c || (this.sequence.endsWith("\x1b") && letter === "\\")) this.state = "ground";
      else if (this.sequence.length > LONGEST * 16) this.state = "ground";
      this.sequence += letter;
      return;
    }
    if (code < 0x20 || code === 0x7f) return this.control(letter);
    switch (this.state) {
      case "ground":
        return this.print(letter);
      case "escape":
        return this.escape(letter);
      case "charset":
        this.charsets[this.sequence === ")" ? 1 : 0] = letter;
        this.state = "ground";
        return;
      case "skip":
        this.state = "ground";
        return;
      default:
        this.sequence += letter;
        if (code >= 0x40 && code <= 0x7e) {
          this.state = "ground";
          this.command(this.sequence);
        } else if (this.sequence.length > LONGEST) this.state = "ground";
    }
  }

  control(letter) {
    switch (letter) {
      case "\x1b":
        this.state = "escape";
        this.sequence = "";
        return;
      case "\r":
        return this.move(0, this.y);
      case "\n": case "\v": case "\f":
        this.isPending = false;
        return this.feed();
      case "\b":
        return this.move(this.x - 1, this.y);
      case "\t":
        return this.move((Math.floor(this.x / 8) + 1) * 8, this.y);
      case "\x0e":
        this.charset = 1;
        return;
      case "\x0f":
        this.charset = 0;
        return;
      case "\x18": case "\x1a":
        this.state = "ground";
    }
  }

  escape(letter) {
    this.state = "ground";
    switch (letter) {
      case "[":
        this.state = "command";
        this.sequence = "";
        return;
      case "]": case "P": case "X": case "^": case "_":
        this.state = "string";
        this.sequence = "";
        return;
      case "(": case ")":
        this.state = "charset";
        this.sequence = letter;
        return;
      case "#": case " ": case "%": case "*": case "+":
        this.state = "skip";
        return;
      case "7":
        return this.save();
      case "8":
        return this.restore();
      case "D":
        return this.feed();
      case "E":
        this.move(0, this.y);
        return this.feed();
      case "M":
        return this.y === this.top ? this.scrollDown(1) : this.move(this.x, this.y - 1);
      case "c":
        return this.reset();
    }
  }

  command(text) {
    const found = /^([?>=!]?)([0-9;:]*)[ -/]*([@-~])$/.exec(text);
    if (!found) return;
    const [, mark, numbers, name] = found;
    const given = numbers.split(/[;:]/).map((each) => (each === "" ? null : Math.min(Number(each), 99999)));
    const n = Math.max(1, given[0] ?? 1);
    if (mark === "?") {
      if (name === "h" || name === "l") for (const mode of given) this.mode(mode, name === "h");
      return;
    }
    if (mark) return;
    switch (name) {
      case "A": return this.move(this.x, Math.max(this.y - n, this.y >= this.top ? this.top : 0));
      case "B": case "e": return this.move(this.x, Math.min(this.y + n, this.y <= this.bottom ? this.bottom : this.rows - 1));
      case "C": case "a": return this.move(this.x + n, this.y);
      case "D": return this.move(this.x - n, this.y);
      case "E": return this.move(0, this.y + n);
      case "F": return this.move(0, this.y - n);
      case "G": case "`": return this.move(n - 1, this.y);
      case "d": return this.move(this.x, n - 1);
      case "H": case "f": return this.move((given[1] || 1) - 1, n - 1);
      case "J": return this.clear(given[0] ?? 0);
      case "K": return this.clearLine(given[0] ?? 0);
      case "L": return this.within(() => this.scrollDown(n, this.y));
      case "M": return this.within(() => this.scrollUp(n, this.y));
      case "P": return this.shift(-n);
      case "@": return this.shift(n);
      case "X": return this.fill(this.y, this.x, Math.min(this.x + n, this.columns));
      case "S": return this.scrollUp(n);
      case "T": return this.scrollDown(n);
      case "b": for (let each = 0; each < Math.min(n, this.columns * this.rows); each += 1) this.print(this.last); return;
      case "r": return this.region(given);
      case "s": return this.save();
      case "u": return this.restore();
      case "h": case "l": if (given.includes(4)) this.inserts = name === "h"; return;
      case "m": return this.paint(given);
      case "n": return given[0] === 6 ? this.reply(`\x1b[${this.y + 1};${this.x + 1}R`) : given[0] === 5 ? this.reply("\x1b[0n") : undefined;
      case "c": return given[0] ? undefined : this.reply("\x1b[?1;2c");
    }
  }

  mode(number, isOn) {
    switch (number) {
      case 1: this.hasApplicationKeys = isOn; return;
      case 7: this.wraps = isOn; return;
      case 25: this.isCursorShown = isOn; this.dirty.add(this.y); return;
      case 2004: this.hasBracketedPaste = isOn; return;
      case 47: case 1047: case 1049: return this.alternate(isOn);
    }
  }

  alternate(isOn) {
    if (isOn === Boolean(this.other)) return;
    if (isOn) {
      this.other = { lines: this.lines, x: this.x, y: this.y, style: this.style };
      this.lines = Array.from({ length: this.rows }, () => this.blankLine());
    } else {
      ({ lines: this.lines, style: this.style } = this.other);
      const { x, y } = this.other;
      this.other = null;
      this.top = 0;
      this.bottom = this.rows - 1;
      this.move(x, y);
    }
    this.touchAll();
  }

  // --- cells

  print(letter) {
    if (this.charsets[this.charset] === "0") {
      const at = letter.codePointAt(0) - 0x60;
      if (at >= 0 && at < 31) letter = GRAPHICS[at];
    }
    if (COMBINING.test(letter)) {
      const line = this.lines[this.y];
      const at = this.isPending ? this.x : Math.max(0, this.x - 1);
      if (line[at].text.length < 16) line[at] = { text: line[at].text + letter, style: line[at].style };
      this.dirty.add(this.y);
      return;
    }
    const width = WIDE.test(letter) ? 2 : 1;
    if (this.wraps && (this.isPending || this.x + width > this.columns)) {
      this.move(0, this.y);
      this.feed();
    }
    this.last = letter;
    if (this.inserts) this.shift(width);
    const line = this.lines[this.y];
    line[this.x] = { text: letter, style: this.style };
    if (width === 2 && this.x + 1 < this.columns) line[this.x + 1] = { text: "", style: this.style };
    this.dirty.add(this.y);
    if (this.x + width >= this.columns) {
      this.x = this.columns - 1;
      this.isPending = this.wraps;
    } else this.x += width;
  }

  paint(given) {
    const style = { ...this.style };
    for (let at = 0; at < given.length; at += 1) {
      const n = given[at] ?? 0;
      if (n === 0) Object.assign(style, PLAIN);
      else if (n === 1) style.bold = true;
      else if (n === 2) style.dim = true;
      else if (n === 3) style.italic = true;
      else if (n === 4) style.underline = true;
      else if (n === 7) style.inverse = true;
      else if (n === 22) style.bold = style.dim = false;
      else if (n === 23) style.italic = false;
      else if (n === 24) style.underline = false;
      else if (n === 27) style.inverse = false;
      else if (n >= 30 && n <= 37) style.fg = n - 30;
      else if (n >= 40 && n <= 47) style.bg = n - 40;
      else if (n >= 90 && n <= 97) style.fg = n - 82;
      else if (n >= 100 && n <= 107) style.bg = n - 92;
      else if (n === 39) style.fg = null;
      else if (n === 49) style.bg = null;
      else if (n === 38 || n === 48) {
        const [colour, used] = chosenColour(given.slice(at + 1));
        style[n === 38 ? "fg" : "bg"] = colour;
        at += used;
      }
    }
    this.style = Object.freeze(style);
  }

  clear(how) {
    const [from, to] = how === 0 ? [this.y + 1, this.rows] : how === 1 ? [0, this.y] : [0, this.rows];
    if (how === 0 || how === 1) this.clearLine(how);
    if (how === 3) this.above = [];
    for (let y = from; y < to; y += 1) this.fill(y, 0, this.columns);
  }

  clearLine(how) {
    this.fill(this.y, how === 0 ? this.x : 0, how === 1 ? this.x + 1 : this.columns);
  }

  fill(y, from, to) {
    const blank = this.blank();
    for (let x = from; x < to; x += 1) this.lines[y][x] = blank;
    this.dirty.add(y);
  }

  shift(by) {
    const line = this.lines[this.y];
    const count = Math.min(Math.abs(by), this.columns - this.x);
    if (by > 0) {
      line.splice(this.x, 0, ...Array(count).fill(this.blank()));
      line.length = this.columns;
    } else {
      line.splice(this.x, count);
      line.push(...Array(count).fill(this.blank()));
    }
    this.dirty.add(this.y);
  }

  within(act) {
    if (this.y >= this.top && this.y <= this.bottom) act();
  }

  region(given) {
    const top = (given[0] || 1) - 1;
    const bottom = Math.min((given[1] || this.rows) - 1, this.rows - 1);
    if (top >= bottom) return;
    this.top = top;
    this.bottom = bottom;
    this.move(0, 0);
  }

  feed() {
    if (this.y === this.bottom) this.scrollUp(1);
    else this.move(this.x, this.y + 1);
  }

  scrollUp(count, from = this.top) {
    for (let each = 0; each < Math.min(count, this.bottom - from + 1); each += 1) {
      const [line] = this.lines.splice(from, 1);
      if (from === 0 && this.bottom === this.rows - 1 && !this.other) this.keep(line);
      this.lines.splice(this.bottom, 0, this.blankLine());
    }
    this.touchAll();
  }

  scrollDown(count, from = this.top) {
    for (let each = 0; each < Math.min(count, this.bottom - from + 1); each += 1) {
      this.lines.splice(this.bottom, 1);
      this.lines.splice(from, 0, this.blankLine());
    }
    this.touchAll();
  }

  keep(line) {
    this.above.push(line);
    this.scrolled += 1;
    if (this.above.length > SCROLLBACK) this.above.shift();
  }

  move(x, y) {
    this.dirty.add(this.y);
    this.x = Math.max(0, Math.min(x, this.columns - 1));
    this.y = Math.max(0, Math.min(y, this.rows - 1));
    this.isPending = false;
    this.dirty.add(this.y);
  }

  save() {
    this.saved = { x: this.x, y: this.y, style: this.style };
  }

  restore() {
    this.style = this.saved.style;
    this.move(this.saved.x, this.saved.y);
  }

  blank() {
    return this.style.bg === null ? BLANK : { text: " ", style: Object.freeze({ ...PLAIN, bg: this.style.bg }) };
  }

  blankLine() {
    return Array(this.columns).fill(BLANK);
  }

  touchAll() {
    for (let y = 0; y < this.rows; y += 1) this.dirty.add(y);
  }
}

// `5;N` of a palette or `2;R;G;B`. -> the colour, and how many numbers it took
function chosenColour(given) {
  if (given[0] === 5) return [Math.min(given[1] ?? 0, 255), 2];
  if (given[0] === 2) return [`rgb(${given.slice(1, 4).map((each) => Math.min(each ?? 0, 255)).join(" ")})`, 4];
  return [null, 0];
}

// Of the palette of 256: the first sixteen are the theme's own.
export function colour(of) {
  if (of === null || typeof of === "string") return of;
  if (of < 16) return `var(--ansi-${of})`;
  if (of > 231) return `rgb(${Array(3).fill(8 + (of - 232) * 10).join(" ")})`;
  const part = (each) => (each === 0 ? 0 : 55 + each * 40);
  const rest = of - 16;
  return `rgb(${part(Math.floor(rest / 36))} ${part(Math.floor(rest / 6) % 6)} ${part(rest % 6)})`;
}
