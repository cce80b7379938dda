"use strict";
// What every page with a player shares: packed numbers, a pen, playing at a speed, keys.
const ARRAYS = { f4: Float32Array, i4: Int32Array };
const $ = (id) => document.getElementById(id);

function unpack(packed) {
  if (typeof packed !== "object" || packed === null) return packed;
  if (!("base64" in packed)) return Object.fromEntries(Object.entries(packed).map(([k, v]) => [k, unpack(v)]));
  const text = atob(packed.base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new ARRAYS[packed.type](bytes.buffer);
}

function number(value) {
  if (Number.isNaN(value)) return "not known";
  if (value === 0) return "0";
  return Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

class CanvasPen {
  constructor(canvas, width, height, scale) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    this.c = canvas.getContext("2d");
    this.c.scale(scale, scale);
    this.c.lineCap = this.c.lineJoin = "round";
  }
  shift(x, y) { this.c.translate(x, y); }
  rect(x, y, w, h, fill) { this.c.fillStyle = fill; this.c.fillRect(x, y, w, h); }
  line(points, color, width, dash = []) {
    const c = this.c;
    c.beginPath();
    points.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
    c.strokeStyle = color; c.lineWidth = width; c.setLineDash(dash); c.stroke();
  }
  shape(points, fill) {
    const c = this.c;
    c.beginPath();
    points.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
    c.closePath(); c.fillStyle = fill; c.fill();
  }
  disc(x, y, r, fill, color, width) {
    const c = this.c;
    c.beginPath(); c.arc(x, y, r, 0, 7);
    if (fill) { c.fillStyle = fill; c.fill(); }
    if (color) { c.strokeStyle = color; c.lineWidth = width; c.setLineDash([]); c.stroke(); }
  }
  text(x, y, words, color, size, align = "center") {
    const c = this.c;
    c.font = `${size}px system-ui, "DejaVu Sans", sans-serif`;
    c.textAlign = align; c.textBaseline = "middle"; c.fillStyle = color; c.fillText(words, x, y);
  }
}

// Plays at the speed that is chosen. move(frames) goes on and says whether there is more; shown() follows each start and stop.
class Player {
  constructor(move, shown) { Object.assign(this, { move, shown, on: false, clock: 0, next: 0 }); }
  toggle() { if (this.on) this.stop(); else this.start(); }
  start() {
    this.on = true;
    $("play").textContent = "❚❚ Pause";
    this.shown();
    this.clock = performance.now();
    this.next = requestAnimationFrame((now) => this.tick(now));
  }
  stop() {
    if (!this.on) return;
    this.on = false;
    cancelAnimationFrame(this.next);
    $("play").textContent = "▶ Play";
    this.shown();
  }
  tick(now) {
    const each = 1000 / Number($("speed").value), frames = Math.floor((now - this.clock) / each);
    if (frames > 0) {
      this.clock += frames * each;
      if (!this.move(frames)) return this.stop();
    }
    this.next = requestAnimationFrame((later) => this.tick(later));
  }
  faster(by) {
    const list = $("speed");
    list.selectedIndex = Math.max(0, Math.min(list.options.length - 1, list.selectedIndex + by));
  }
}

// The page's keys work wherever the focus is. Who moves it with Tab keeps the few keys that a control needs.
function onKeys(keys) {
  let tabbed = false;
  document.addEventListener("pointerdown", () => { tabbed = false; }, true);
  document.addEventListener("keydown", (e) => {
    if (e.key === "Tab") tabbed = true;
    const needs = e.target.matches("select") ? [" ", "ArrowUp", "ArrowDown"] : e.target.matches("button, summary, [type=checkbox]") ? [" "] : [];
    if (e.ctrlKey || e.metaKey || e.altKey || (tabbed && needs.includes(e.key)) || !Object.hasOwn(keys, e.key)) return;
    e.preventDefault();
    keys[e.key]();
  });
}
