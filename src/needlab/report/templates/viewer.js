(() => {
// One run of the log: typed arrays, and Q at any frame.
// Frame first[p] + p + i shows pause p after i of its backups.
const NAMES = ["up", "down", "left", "right"];
const DOORS = { "^": ["↑", "up"], v: ["↓", "down"], "<": ["←", "left"], ">": ["→", "right"] };
// The smallest and the largest number, NaN left out; 0 is always between them.
function rangeOf(values) {
  let low = 0, high = 0;
  for (const v of values) { if (v < low) low = v; if (v > high) high = v; }
  return [low, high];
}
// The last index with values[index] <= wanted, or -1; values grow.
function lastNotAbove(values, wanted) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= wanted) low = middle + 1; else high = middle;
  }
  return low - 1;
}

class Run {
  constructor(packed) {
    Object.assign(this, unpack(packed));
    this.states = this.marks.length;
    this.rows = Math.ceil(this.states / this.columns);
    this.actions = this.next.length / this.states;
    this.grid = this.actions === 4;
    const { first, count } = this.pauses;
    this.frames = first.length + this.backups.state.length;
    this.pauseFrame = first.map((backup, pause) => backup + pause);
    this.Q = new Float32Array(this.next.length);
    // What each write replaces, so that time also runs backwards.
    const { pair, value } = this.writes, Q = new Float32Array(this.next.length);
    this.replaced = value.map((_, i) => { const old = Q[pair[i]]; Q[pair[i]] = value[i]; return old; });
    this.written = 0;
    this.events = [];
    const { event, direction, pause } = this.backups;
    // An event's frame is its end, where all of it is seen.
    for (let b = 0; b < event.length; b++) {
      if (event[b] < 0 || event[b + 1] === event[b]) continue;
      this.events.push({ direction: direction[b], frame: b + pause[b] + 1 });
    }
    const { episode } = this.steps;
    this.firstStep = new Map();
    for (let i = 0; i < episode.length; i++) if (!this.firstStep.has(episode[i])) this.firstStep.set(episode[i], i);
    this.ranges = { value: this.valueRange(), need: rangeOf(this.need.length ? this.need : this.backups.need), gain: rangeOf(this.backups.gain) };
    this.at(0);
  }

  at(frame) {
    this.frame = Math.max(0, Math.min(this.frames - 1, Math.round(frame) || 0));
    this.pause = lastNotAbove(this.pauseFrame, this.frame);
    this.done = this.frame - this.pauseFrame[this.pause];
    const { frame: when, pair, value } = this.writes;
    while (this.written < when.length && when[this.written] <= this.frame) {
      this.Q[pair[this.written]] = value[this.written];
      this.written++;
    }
    while (this.written > 0 && when[this.written - 1] > this.frame) {
      this.written--;
      this.Q[pair[this.written]] = this.replaced[this.written];
    }
  }

  // The largest and the smallest value of a state at any frame.
  valueRange() {
    let low = 0, high = 0;
    const { frame, pair } = this.writes, changed = new Set();
    for (let i = 0; i < frame.length; i++) {
      changed.add(Math.floor(pair[i] / this.actions));
      if (frame[i + 1] === frame[i]) continue;
      this.at(frame[i]);
      for (const s of changed) { low = Math.min(low, this.best(s)); high = Math.max(high, this.best(s)); }
      changed.clear();
    }
    return [low, high];
  }

  // The same moment of another run: its episode, pause of the episode, and backup.
  follow(other) {
    const episode = other.pauses.episode[other.pause], { episode: own, count } = this.pauses;
    const nth = other.pause - (lastNotAbove(other.pauses.episode, episode - 1) + 1);
    const before = lastNotAbove(own, episode - 1), last = lastNotAbove(own, episode);
    if (last < 0) return this.at(0);
    const pause = last > before ? Math.min(before + 1 + nth, last) : last;
    this.at(this.pauseFrame[pause] + (last > before ? Math.min(other.done, count[pause]) : count[pause]));
  }

  get made() { const start = this.pauses.first[this.pause]; return [start, start + this.done]; }

  // Whether nothing is done in a state: a goal leads nowhere.
  isEnd(state) {
    for (let a = 0; a < this.actions; a++) if (this.next[state * this.actions + a] !== state) return false;
    return true;
  }

  best(state) {
    let best = -Infinity;
    for (let a = 0; a < this.actions; a++) best = Math.max(best, this.Q[state * this.actions + a]);
    return best;
  }

  cells(layer) {
    const found = new Float32Array(this.states).fill(NaN), [start, end] = this.made;
    if (layer === "value" && this.writes.frame.length) {
      for (let s = 0; s < this.states; s++) if (this.marks[s] !== "#") found[s] = this.best(s);
    } else if (layer === "need" && this.need.length) {
      return this.need.subarray(this.pause * this.states, (this.pause + 1) * this.states);
    } else if (layer === "need" || layer === "gain") {
      const values = this.backups[layer];
      for (let b = start; b < end; b++) {
        const s = this.backups.state[b];
        if (!(found[s] >= values[b])) found[s] = values[b];
      }
    }
    return found;
  }

  said() {
    const p = this.pause, { episode, steps, kind, state, count } = this.pauses, [start, end] = this.made;
    const where = state[p] < 0 ? "" : `, agent in ${this.place(state[p])}`;
    const own = steps[p] - this.firstStep.get(episode[p]), after = own >= 0 ? ` after ${own} step${own === 1 ? "" : "s"}` : "";
    const moment = `Episode ${episode[p] + 1}${after}, ${DATA.kinds[kind[p]]}${where}. Backup ${this.done} of ${count[p]}`;
    if (end === start) return `${moment}: none yet.`;
    const b = end - 1, k = this.backups, i = k.state[b] * this.actions + k.action[b];
    const chain = k.length[b] > 1 ? `, chain of ${k.length[b]}` : "";
    const way = k.direction[b] ? `${DATA.directions[k.direction[b]]} ` : "";
    const event = k.event[b] < 0 ? "in no event" : `${way}event ${k.event[b] + 1}`;
    const move = k.action[b] < 0 ? "" : ` ${this.actionName(k.action[b])} to ${this.place(this.next[i])}`;
    return `${moment}: ${this.place(k.state[b])}${move}; ` +
      `gain ${number(k.gain[b])}${k.floor[b] ? " (the floor alone)" : ""}, need ${number(k.need[b])}${chain}; ${event}.`;
  }

  saidOf(s) {
    if (s < 0 || s >= this.states) return "";
    if (this.marks[s] === "#") return `${this.place(s)}: wall.`;
    const words = [], mark = this.marks[s];
    if (mark === "S") words.push("a start");
    else if (mark in DOORS) words.push(`a one-way door ${DOORS[mark][1]}`);
    else if (/[A-Z]/.test(mark)) words.push(mark === "G" ? "a goal" : `goal ${mark}`);
    else if (/[a-z]/.test(mark)) words.push(`reward ${mark}`);
    if (this.writes.frame.length) {
      const all = Array.from({ length: this.actions }, (_, a) => `${this.actionName(a)} ${number(this.Q[s * this.actions + a])}`);
      words.push(`value ${number(this.best(s))} (${all.join(", ")})`);
    }
    for (const layer of ["need", "gain"]) {
      const value = this.cells(layer)[s];
      if (!Number.isNaN(value)) words.push(`${layer} ${number(value)}`);
    }
    let times = 0;
    for (let [b, end] = this.made; b < end; b++) times += this.backups.state[b] === s;
    return `${this.place(s)}, state ${s}: ${words.concat(`replayed ${times} times in this pause`).join("; ")}.`;
  }

  place(s) {
    return this.rows > 1 ? `row ${Math.floor(s / this.columns) + 1}, column ${s % this.columns + 1}` : `state ${s}`;
  }

  actionName(a) { return this.grid ? NAMES[a] : `action ${a}`; }
}

// A pen with the methods of CanvasPen that writes SVG.
class SvgPen {
  constructor(width, height) { this.parts = []; this.size = [width, height]; this.open = 0; }
  add(name, set, words = "") {
    const escape = (v) => String(v).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
    const all = Object.entries(set).map(([k, v]) => ` ${k}="${escape(typeof v === "number" ? Math.round(v * 100) / 100 : v)}"`);
    this.parts.push(`<${name}${all.join("")}>${escape(words)}</${name}>`);
  }
  shift(x, y) { this.parts.push(`<g transform="translate(${x} ${y})">`); this.open++; }
  rect(x, y, width, height, fill) { this.add("rect", { x, y, width, height, fill }); }
  line(points, stroke, width, dash = []) {
    this.add("polyline", { points: points.map((p) => p.map((v) => v.toFixed(1))).join(" "), stroke, "stroke-width": width, fill: "none",
      "stroke-dasharray": dash.join(" ") || "none", "stroke-linecap": "round", "stroke-linejoin": "round" });
  }
  shape(points, fill) { this.add("polygon", { points: points.map((p) => p.map((v) => v.toFixed(1))).join(" "), fill }); }
  disc(cx, cy, r, fill, stroke, width) { this.add("circle", { cx, cy, r, fill: fill || "none", stroke: stroke || "none", "stroke-width": width || 0 }); }
  text(x, y, words, fill, size, align = "center") {
    const anchor = { center: "middle", left: "start", right: "end" }[align];
    this.add("text", { x, y, fill, "font-size": size, "font-family": "system-ui, DejaVu Sans, sans-serif", "text-anchor": anchor, "dominant-baseline": "central" }, words);
  }
  get source() {
    const [w, h] = this.size;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}">${this.parts.join("")}${"</g>".repeat(this.open)}</svg>`;
  }
}

let ink = {};
function readColors() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "quiet", "paper", "card", "line", "wall", "low", "mid", "high", "forward", "reverse", "none", "agent"]) {
    ink[name] = style.getPropertyValue(`--${name}`).trim();
  }
  ink.ramp = ["low", "mid", "high"].map((name) => rgb(ink[name]));
  ink.events = [ink.none, ink.forward, ink.reverse];
}

// From low over mid to high, t from 0 to 1.
function shade(t) {
  const part = Math.max(0, Math.min(1, t)) * 2, i = part >= 1 ? 1 : 0;
  return ink.ramp[i].map((from, k) => Math.round(from + (ink.ramp[i + 1][k] - from) * (part - i)));
}
const css = (color) => `rgb(${color.join(",")})`;
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
// What can be read on a color.
const over = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b > 120 ? "#111" : "#fff");

function drawBoard(pen, run, size, cursor) {
  const { columns, states, marks, actions, next } = run;
  const center = (s) => [((s % columns) + 0.5) * size, (Math.floor(s / columns) + 0.5) * size];
  const towards = (s, a) => {
    const after = a < 0 ? s : next[s * actions + a];
    if (after === s) return null;
    const [x, y] = center(s), [u, v] = center(after), length = Math.hypot(u - x, v - y);
    return [(u - x) / length, (v - y) / length];
  };
  const head = (s, [dx, dy], reach, width) => {
    const [x, y] = center(s), tip = [x + dx * reach * size, y + dy * reach * size];
    const foot = [tip[0] - dx * width * size, tip[1] - dy * width * size], half = width * size * 0.6;
    return [tip, [foot[0] - dy * half, foot[1] + dx * half], [foot[0] + dy * half, foot[1] - dx * half]];
  };
  const cells = run.cells(view.layer), [low, high] = scaleOf(cells), colors = [];
  for (let s = 0; s < states; s++) {
    const [x, y] = [(s % columns) * size, Math.floor(s / columns) * size];
    const t = view.layer === "gain" ? 1 + Math.log10(cells[s] / high) / 10 : (cells[s] - low) / (high - low);
    colors[s] = shade(Number.isFinite(t) ? t : 0);
    pen.rect(x, y, size, size, ink.line);
    pen.rect(x + 0.5, y + 0.5, size - 1, size - 1, marks[s] === "#" ? ink.wall : css(colors[s]));
    if (marks[s] === "#") pen.line([[x + 1, y + size - 1], [x + size - 1, y + 1]], ink.paper, 1);
  }
  for (let s = 0; s < states; s++) {
    const [x, y] = center(s);
    if (marks[s] === "#") continue;
    if (run.grid) drawDoors(pen, run, s, size);
    if (!view.arrows || size < 14 || !run.writes.frame.length) continue;
    const best = run.best(s), chosen = [];
    for (let a = 0; a < actions; a++) if (run.Q[s * actions + a] === best) chosen.push(a);
    if (chosen.length === actions) continue;
    for (const a of chosen) {
      const way = towards(s, a);
      if (way) pen.shape(head(s, way, 0.46, 0.16), over(colors[s]));
      else pen.disc(x, y, size * 0.06, over(colors[s]));
    }
  }
  const agent = run.pauses.state[run.pause];
  if (agent >= 0) {
    drawTrail(pen, run, center);
    const [x, y] = center(agent);
    pen.disc(x, y, size * 0.42, null, ink.paper, 6);
    pen.disc(x, y, size * 0.42, null, ink.agent, 3);
  }
  if (view.path) {
    const [start, end] = run.made, k = run.backups, last = new Map();
    for (let b = start; b < end; b++) {
      last.set(k.state[b], b);
      if (b === start) continue;
      const pair = [center(k.state[b - 1]), center(k.state[b])];
      // The last pair of an event may turn into the next one, so both ends must agree.
      const inside = k.event[b] >= 0 && k.event[b] === k.event[b - 1], kind = inside ? k.direction[b] : 0;
      if (inside) pen.line(pair, ink.paper, 6);
      pen.line(pair, ink.events[kind], inside ? 3 : 1.5, [[1, 5], [], [6, 5]][kind]);
    }
    const radius = Math.min(13, size * 0.24);
    for (const [s, b] of last) {
      const [x, y] = center(s), color = ink.events[k.direction[b]], way = towards(s, k.action[b]), now = b === end - 1;
      if (way) pen.shape(head(s, way, 0.44, 0.2), color);
      if (k.floor[b]) {
        pen.rect(x - radius, y - radius, 2 * radius, 2 * radius, color);
        if (!now) pen.rect(x - radius + 2, y - radius + 2, 2 * radius - 4, 2 * radius - 4, ink.paper);
      } else pen.disc(x, y, radius, now ? color : ink.paper, color, 2);
      if (radius >= 5) pen.text(x, y, String(b - start + 1), now ? over(rgb(color)) : ink.ink, radius * 1.05);
    }
  }
  // Last, on a ground of their own: letters stay readable under the agent and the path.
  for (let s = 0; s < states; s++) {
    if (marks[s] === "." || marks[s] === "#") continue;
    const [x, y] = [(s % columns) * size + 1, Math.floor(s / columns) * size + 1], letter = Math.max(9, size * 0.24);
    pen.rect(x, y, letter * 1.1, letter * 1.15, ink.paper);
    pen.text(x + letter * 0.55, y + letter * 0.6, DOORS[marks[s]]?.[0] ?? marks[s], ink.ink, letter);
  }
  if (cursor >= 0) {
    const [x, y] = [(cursor % columns) * size, Math.floor(cursor / columns) * size];
    pen.line([[x + 2, y + 2], [x + size - 2, y + 2], [x + size - 2, y + size - 2], [x + 2, y + size - 2], [x + 2, y + 2]], ink.ink, 2, [3, 3]);
  }
  drawScale(pen, run, size, low, high);
}

// The range of the colors: of all panels and frames, or of these cells.
function scaleOf(cells) {
  const ends = view.scale && view.layer !== "none" ? panels.flatMap((p) => p.run.ranges[view.layer]) : rangeOf(cells);
  const low = Math.min(...ends), high = Math.max(...ends);
  return low === high ? [0, 1] : [low, high];
}

// A bar where a cell cannot be left though its neighbor is free: the closed side of a one-way door.
function drawDoors(pen, run, s, size) {
  if (run.isEnd(s)) return;
  const column = s % run.columns, row = Math.floor(s / run.columns), x = column * size, y = row * size;
  const sides = [[row > 0, s - run.columns, [x, y + 2, x + size, y + 2]], [row < run.rows - 1, s + run.columns, [x, y + size - 2, x + size, y + size - 2]],
    [column > 0, s - 1, [x + 2, y, x + 2, y + size]], [column < run.columns - 1, s + 1, [x + size - 2, y, x + size - 2, y + size]]];
  sides.forEach(([inside, beside, [a, b, c, d]], action) => {
    if (inside && beside < run.states && run.marks[beside] !== "#" && run.next[s * 4 + action] === s) pen.line([[a, b], [c, d]], ink.wall, 4);
  });
}

// The agent's way since the last pause of this episode.
function drawTrail(pen, run, center) {
  const { steps, episode } = run.pauses, p = run.pause, { state, next_state: after, episode: of } = run.steps;
  const from = p > 0 && episode[p - 1] === episode[p] ? steps[p - 1] : 0, points = [];
  for (let i = Math.max(from, steps[p] - 200); i < steps[p]; i++) {
    if (of[i] !== episode[p]) continue;
    if (!points.length) points.push(center(state[i]));
    points.push(center(after[i]));
  }
  if (points.length > 1) pen.line(points, ink.quiet, 2, [2, 4]);
}

function drawScale(pen, run, size, low, high) {
  const y = run.rows * size + 8, width = Math.min(run.columns * size, 320), bar = Math.max(20, width - 212);
  if (view.layer === "none") return;
  if (view.layer === "value" && !run.writes.frame.length) return pen.text(0, y + 6, "value is not known", ink.quiet, 12, "left");
  const name = { value: "value", need: "need", gain: "gain (log)" }[view.layer];
  pen.text(0, y + 6, name, ink.ink, 12, "left");
  for (let i = 0; i < 24; i++) pen.rect(140 + (i * bar) / 24, y, bar / 24 + 0.5, 12, css(shade(i / 23)));
  pen.text(134, y + 6, view.layer === "gain" ? number(high * 1e-10) : number(low), ink.ink, 12, "right");
  pen.text(146 + bar, y + 6, number(high), ink.ink, 12, "left");
}
const SCALE = 26, GUTTER = 62;

const ROWS = [["episodes", 7], ["pauses", 21], ["forward", 36], ["reverse", 51]];

class Panel {
  constructor(run) {
    this.run = run;
    this.cursor = -1;
    const make = (tag, parent, set = {}) => parent.appendChild(Object.assign(document.createElement(tag), set));
    this.root = make("section", $("panels"), { className: "panel" });
    this.root.setAttribute("aria-label", run.name);
    const title = make("div", this.root, { className: "bar" });
    make("h2", title, { textContent: run.name });
    make("small", title, { textContent: run.world });
    this.board = make("canvas", this.root, { className: "board", tabIndex: 0 });
    this.board.setAttribute("role", "application");
    this.board.setAttribute("aria-label", `Board of ${run.name}; arrow keys move the cell cursor`);
    this.cell = make("p", this.root, { className: "cell quiet" });
    this.strip = make("canvas", this.root, { title: "The backups of this pause" });
    this.timeline = make("canvas", this.root, { title: "Episodes, pauses and events" });
    this.said = make("p", this.root, { className: "said" });
    this.root.addEventListener("pointerdown", () => lead(this));
    this.board.addEventListener("focus", () => { lead(this); this.point(Math.max(0, this.cursor)); });
    this.board.addEventListener("pointermove", (e) => this.point(this.stateAt(e)));
    this.board.addEventListener("pointerleave", () => this.point(-1));
    this.board.addEventListener("keydown", (e) => this.moveCursor(e));
    const seek = (canvas, frameOf) => {
      const move = (e) => {
        if (!(e.buttons & 1) && e.type !== "pointerdown") return;
        player.stop();
        go(this, frameOf((e.offsetX - GUTTER) / (canvas.clientWidth - GUTTER)));
      };
      canvas.addEventListener("pointerdown", (e) => { canvas.setPointerCapture(e.pointerId); move(e); });
      canvas.addEventListener("pointermove", move);
    };
    seek(this.timeline, (share) => Math.max(0, share) * (run.frames - 1));
    seek(this.strip, (share) => run.pauseFrame[run.pause] + 1 + Math.floor(Math.max(0, Math.min(share, 0.999)) * run.pauses.count[run.pause]));
  }

  stateAt(e) {
    const column = Math.floor(e.offsetX / this.size), row = Math.floor(e.offsetY / this.size), s = row * this.run.columns + column;
    return column >= 0 && column < this.run.columns && row >= 0 && s < this.run.states ? s : -1;
  }

  moveCursor(e) {
    const by = { ArrowUp: -this.run.columns, ArrowDown: this.run.columns, ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!by) return;
    e.preventDefault();
    e.stopPropagation();
    const to = this.cursor + by;
    this.point(to >= 0 && to < this.run.states ? to : this.cursor);
  }

  point(state) { this.cursor = state; this.draw(); }

  layout() {
    const { run } = this, room = this.root.clientWidth - 20;
    this.size = Math.max(6, Math.min(64, Math.floor(room / run.columns)));
    this.width = Math.max(this.size * run.columns, Math.min(room, 320));
    this.height = this.size * run.rows + SCALE;
    this.board.style.width = `${this.width}px`;
    this.board.style.height = `${this.height}px`;
    // Reading it while drawing would make the browser lay out the page each time.
    this.wide = this.strip.clientWidth;
    this.past = null;
  }

  draw() {
    const scale = window.devicePixelRatio || 1, { run } = this;
    drawBoard(new CanvasPen(this.board, this.width, this.height, scale), run, this.size, this.cursor);
    this.cell.textContent = run.saidOf(this.cursor) || "Point at a cell, or focus the board and use arrow keys, for its numbers.";
    this.said.textContent = run.said();
    this.drawStrip(scale);
    this.drawTimeline(scale);
  }

  drawStrip(scale) {
    const { run, strip, wide: width } = this, count = run.pauses.count[run.pause], start = run.pauses.first[run.pause];
    const pen = new CanvasPen(strip, width, 26, scale), step = (width - GUTTER) / count, { direction } = run.backups;
    strip.style.height = "26px";
    pen.text(0, 13, "backups", ink.quiet, 11, "left");
    pen.shift(GUTTER, 0);
    for (let i = 0; i < count; i++) {
      const color = ink.events[direction[start + i]], x = i * step + 1, w = Math.max(1, step - 2), made = i < run.done;
      pen.rect(x, 3, w, 20, made ? color : ink.card);
      if (!made) pen.rect(x, direction[start + i] === 2 ? 20 : 3, w, direction[start + i] ? 3 : 1, color);
      const mark = step > 28 ? ["", " ▲", " ▼"][direction[start + i]] : "";
      if (step > 17) pen.text(x + w / 2, 13, `${i + 1}${mark}`, made ? over(rgb(color)) : ink.ink, 10);
    }
    if (run.done) pen.rect((run.done - 1) * step, 0, step, 2, ink.ink);
  }

  drawTimeline(scale) {
    const { run, timeline, wide: width } = this, height = 58;
    const x = (frame) => GUTTER + (frame / Math.max(1, run.frames - 1)) * (width - GUTTER);
    timeline.style.height = `${height}px`;
    if (!this.past || this.past.dataset.of !== `${width},${scale}`) {
      this.past = document.createElement("canvas");
      this.past.dataset.of = `${width},${scale}`;
      const pen = new CanvasPen(this.past, width, height, scale), { episode } = run.pauses;
      ROWS.forEach(([name, y]) => pen.text(0, y, name, ink.quiet, 11, "left"));
      let first = 0;
      for (let p = 1; p <= episode.length; p++) {
        if (p < episode.length && episode[p] === episode[first]) continue;
        const from = x(run.pauseFrame[first]), to = p < episode.length ? x(run.pauseFrame[p]) : width;
        pen.rect(from, 0, Math.max(0.5, to - from), 14, episode[first] % 2 ? ink.line : ink.card);
        if (to - from > 15) pen.text((from + to) / 2, 7, String(episode[first] + 1), ink.ink, 10);
        first = p;
      }
      for (let p = 0; p < episode.length; p++) pen.rect(x(run.pauseFrame[p]), 16, 1, 10, ink.quiet);
      for (const { direction, frame } of run.events) {
        // An event without a direction is a diamond between the rows.
        const at = Math.min(x(frame), width - 4), [tip, foot, end] = [[38, 43, 48], [29, 41, 41], [57, 45, 45]][direction];
        pen.shape([[at, tip], [at - 4, foot], [at, end], [at + 4, foot]], ink.events[direction]);
      }
    }
    const pen = new CanvasPen(timeline, width, height, scale);
    pen.c.save(); pen.c.resetTransform(); pen.c.drawImage(this.past, 0, 0); pen.c.restore();
    pen.rect(Math.min(width - 2, x(run.frame)), 0, 2, height, ink.ink);
  }
}

// What is shown: panels, the one that leads, layers; kept in the address.
const DATA = JSON.parse($("data").textContent);
const runs = DATA.runs.map((packed) => new Run(packed));
const view = { layer: "value", arrows: true, path: true, scale: runs.length > 1 };
let panels = [], leader = null;
const player = new Player(
  (frames) => { go(leader, leader.run.frame + frames); return leader.run.frame < leader.run.frames - 1; },
  () => { lead(leader); draw(); },
);

function show(numbers) {
  $("panels").replaceChildren();
  panels = numbers.map((n) => new Panel(runs[n]));
  lead(panels[0]);
  layout();
}

function lead(panel) {
  leader = panel;
  for (const p of panels) {
    p.root.classList.toggle("lead", p === panel && panels.length > 1);
    p.said.setAttribute("aria-live", p === panel && !player.on ? "polite" : "off");
  }
}

function layout() { for (const p of panels) p.layout(); draw(); }

function draw() { for (const p of panels) p.draw(); if (!player.on) keep(); }

function go(panel, frame) {
  if (panel !== leader) lead(panel);
  panel.run.at(frame);
  for (const p of panels) if (p !== panel) p.run.follow(panel.run);
  draw();
}

function address() {
  const shown = panels.map((p) => runs.indexOf(p.run)), first = panels.indexOf(leader);
  return `#runs=${shown.join(",")}&lead=${first}&frame=${leader.run.frame}&cells=${view.layer}&policy=${+view.arrows}&backups=${+view.path}&scale=${+view.scale}`;
}

function keep() {
  const now = address();
  $("link").setAttribute("href", now);
  if (location.hash !== now) try { history.replaceState(null, "", now); } catch { /* the link stays */ }
}

function restore() {
  const set = new URLSearchParams(location.hash.slice(1) || DATA.start), flag = (name, old) => (set.has(name) ? set.get(name) === "1" : old);
  const wanted = (set.get("runs") || (runs.length > 1 ? "0,1" : "0")).split(",").map(Number).filter((n) => runs[n]).slice(0, 2);
  const numbers = [...new Set(wanted)];
  if (["value", "need", "gain", "none"].includes(set.get("cells"))) view.layer = set.get("cells");
  view.arrows = flag("policy", view.arrows);
  view.path = flag("backups", view.path);
  view.scale = flag("scale", view.scale);
  const frame = Number(set.get("frame")) || 0, first = Number(set.get("lead")) || 0;
  show(numbers.length ? numbers : [0]);
  controls();
  go(panels[first] || panels[0], frame);
}

function controls() {
  $("layer").value = view.layer;
  $("arrows").checked = view.arrows;
  $("path").checked = view.path;
  $("scale").checked = view.scale;
  if ($("other")) $("other").value = panels[1] ? runs.indexOf(panels[1].run) : -1;
}

function set(name, value) { view[name] = value; controls(); draw(); }

function play() {
  if (!player.on && leader.run.frame === leader.run.frames - 1) go(leader, 0);
  player.toggle();
}

function step(by) { player.stop(); go(leader, leader.run.frame + by); }

function stepPause(by) {
  player.stop();
  const { run } = leader, to = by < 0 && run.done > 0 ? run.pause : run.pause + by;
  if (to >= 0 && to < run.pauseFrame.length) go(leader, run.pauseFrame[to]);
}

// To the end of the next event in a direction (1 forward, 2 reverse), or of the previous.
function stepEvent(direction, by) {
  player.stop();
  const { run } = leader, own = run.events.filter((e) => e.direction === direction);
  const found = by > 0 ? own.find((e) => e.frame > run.frame) : own.findLast((e) => e.frame < run.frame);
  if (found) go(leader, found.frame);
}

function download(name, blob) {
  const a = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

// The boards beside each other, with their names and what is said of them.
function drawFrame(pen, width, height) {
  pen.rect(0, 0, width, height, ink.paper);
  pen.shift(12, 12);
  for (const p of panels) {
    pen.text(0, 8, p.run.name, ink.ink, 14, "left");
    p.run.said().match(/.{1,56}(\s|$)/g)?.slice(0, 5).forEach((line, i) => pen.text(0, 40 + p.height + 16 * i, line.trim(), ink.quiet, 11, "left"));
    pen.shift(0, 24);
    drawBoard(pen, p.run, p.size, -1);
    pen.shift(Math.max(p.width, 330) + 24, -24);
  }
}

function exported(kind) {
  const width = panels.reduce((sum, p) => sum + Math.max(p.width, 330) + 24, 0), height = Math.max(...panels.map((p) => p.height)) + 130;
  if (kind === "svg") {
    const pen = new SvgPen(width, height);
    drawFrame(pen, width, height);
    return download("replay.svg", new Blob([pen.source], { type: "image/svg+xml" }));
  }
  const canvas = document.createElement("canvas");
  drawFrame(new CanvasPen(canvas, width, height, 2), width, height);
  canvas.toBlob((blob) => download("replay.png", blob));
}

async function copyLink() {
  const words = $("link").href;
  let said = "Link copied";
  try {
    await navigator.clipboard.writeText(words);
  } catch {
    // Where a page may not write to the clipboard, its old command still can.
    const box = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: words }));
    box.select();
    if (!document.execCommand("copy")) said = "Not copied: the address bar has the link";
    box.remove();
  }
  $("copied").textContent = said;
  clearTimeout(copyLink.later);
  copyLink.later = setTimeout(() => { $("copied").textContent = ""; }, 4000);
}

const KEYS = {
  " ": play, ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => stepPause(-1), ArrowDown: () => stepPause(1),
  Home: () => go(leader, 0), End: () => go(leader, leader.run.frames - 1),
  f: () => stepEvent(1, 1), F: () => stepEvent(1, -1), r: () => stepEvent(2, 1), R: () => stepEvent(2, -1),
  1: () => set("layer", "value"), 2: () => set("layer", "need"), 3: () => set("layer", "gain"), 4: () => set("layer", "none"),
  p: () => set("arrows", !view.arrows), b: () => set("path", !view.path), s: () => set("scale", !view.scale), c: copyLink, "+": () => player.faster(1), "-": () => player.faster(-1),
};
onKeys(KEYS);
const CLICKS = {
  play, back: () => step(-1), on: () => step(1), pauseback: () => stepPause(-1), pauseon: () => stepPause(1),
  forward: () => stepEvent(1, 1), reverse: () => stepEvent(2, 1), svg: () => exported("svg"), png: () => exported("png"),
};
for (const [id, act] of Object.entries(CLICKS)) $(id).addEventListener("click", act);
$("layer").addEventListener("change", (e) => set("layer", e.target.value));
$("arrows").addEventListener("change", (e) => set("arrows", e.target.checked));
$("path").addEventListener("change", (e) => set("path", e.target.checked));
$("scale").addEventListener("change", (e) => set("scale", e.target.checked));
$("link").addEventListener("click", (e) => { e.preventDefault(); copyLink(); });
if ($("other")) {
  const add = (value, textContent) => $("other").append(Object.assign(document.createElement("option"), { value, textContent }));
  add(-1, "nothing");
  runs.forEach((run, i) => add(i, run.name));
  $("other").addEventListener("change", (e) => {
    const { run } = panels[0], other = Number(e.target.value);
    show([...new Set([runs.indexOf(run), other])].filter((n) => n >= 0));
    controls();
    go(panels[0], run.frame);
  });
}
// A gallery's list of moments: links to addresses, and the paragraph of the one chosen last.
const moments = [...document.querySelectorAll(".moment")], texts = [...document.querySelectorAll(".text")];
function tell(n) {
  moments.forEach((a, i) => (i === n ? a.setAttribute("aria-current", "true") : a.removeAttribute("aria-current")));
  texts.forEach((p, i) => { p.hidden = i !== n; });
}
moments.forEach((a, i) => a.addEventListener("click", () => tell(i)));
addEventListener("hashchange", () => { if (location.hash !== address()) restore(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColors(); layout(); });
new ResizeObserver(() => layout()).observe($("panels"));
readColors();
tell(Math.max(0, moments.findIndex((a) => a.getAttribute("href") === location.hash)));
restore();

// For tests and for the console.
window.replayViewer = {
  state: () => ({
    playing: player.on, lead: panels.indexOf(leader), layer: view.layer, arrows: view.arrows, path: view.path, scale: view.scale,
    panels: panels.map(({ run, cursor }) => ({
      name: run.name, frame: run.frame, frames: run.frames, pause: run.pause, done: run.done, agent: run.pauses.state[run.pause], cursor,
    })),
  }),
  Q: (n) => Array.from(panels[n].run.Q),
  range: () => scaleOf(panels[0].run.cells(view.layer)),
  cells: (n, layer) => Array.from(panels[n].run.cells(layer)),
};
})();
