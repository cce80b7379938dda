(() => {
const DATA = unpack(JSON.parse($("data").textContent)), { sheet, steps, rows, most } = DATA, last = steps.frame.length - 1;
const image = new Image(), color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
let now = 0;
const player = new Player((frames) => { go(now + frames); return now < last; }, () => { $("said").setAttribute("aria-live", player.on ? "off" : "polite"); keep(); });

function paint(canvas, frame) {
  const { width, height, columns } = sheet;
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d").drawImage(image, (frame % columns) * width, Math.floor(frame / columns) * height, width, height, 0, 0, width, height);
}

// Tiles are made once and painted again.
function tiles(id, shown) {
  const root = $(id);
  while (root.children.length < shown.length) {
    const tile = document.createElement("figure");
    tile.className = "tile";
    tile.append(document.createElement("canvas"), document.createElement("figcaption"));
    root.append(tile);
  }
  [...root.children].forEach((tile, i) => {
    tile.hidden = i >= shown.length;
    if (tile.hidden) return;
    paint(tile.firstChild, shown[i].frame);
    tile.lastChild.textContent = shown[i].words;
  });
}

function stored(columns, row, draws) {
  const found = [];
  for (let i = columns.begin[row]; i < columns.begin[row + 1]; i++) {
    const words = [`drawn ${columns.drawn[i]} of ${draws.toLocaleString("en")}`];
    if (columns.need.length) words.unshift(`need ${number(Number(columns.need[i].toPrecision(3)))}`);
    if (columns.reward[i]) words.push(`${DATA.n_step > 1 ? `${DATA.n_step}-step return` : "reward"} ${number(columns.reward[i])}`);
    found.push({ id: columns.id[i], frame: columns.frame[i], words: `${words.join(", ")}; transition ${columns.id[i].toLocaleString("en")}` });
  }
  return found;
}

function bins() {
  const count = DATA.edges.length + 1, own = DATA.bins.subarray(now * count, (now + 1) * count), top = Math.max(...own);
  const canvas = $("bins"), width = canvas.clientWidth, height = 130, each = width / count;
  canvas.style.height = `${height}px`;
  const pen = new CanvasPen(canvas, width, height, window.devicePixelRatio || 1);
  own.forEach((value, i) => {
    const high = (value / top) * (height - 34);
    pen.rect(i * each + 1, height - 18 - high, each - 2, Math.max(high, value ? 1 : 0), color("mid"));
    if (value === top) pen.text(Math.max(30, Math.min(width - 30, (i + 0.5) * each)), 8, value.toLocaleString("en"), color("ink"), 11);
  });
  DATA.edges.forEach((edge, i) => { if (i % 3 === 0) pen.text((i + 1) * each, height - 8, edge < 1 ? `1/${1 / edge}` : String(edge), color("ink"), 11); });
  pen.line([[(DATA.edges.indexOf(1) + 1) * each, 16], [(DATA.edges.indexOf(1) + 1) * each, height - 18]], color("ink"), 1, [3, 3]);
  $("spread").textContent = `Need / its mean, which is the dashed line. Need selects about ${Math.round(DATA.effective[now]).toLocaleString("en")} of ${own.reduce((a, b) => a + b, 0).toLocaleString("en")} transitions.`;
}

function timeline() {
  const canvas = $("timeline"), width = canvas.clientWidth, height = 22, x = (step) => 8 + (step / Math.max(1, last)) * (width - 16);
  canvas.style.height = `${height}px`;
  const pen = new CanvasPen(canvas, width, height, window.devicePixelRatio || 1);
  pen.rect(8, 10, width - 16, 2, color("line"));
  steps.reward.forEach((reward, i) => { if (reward) pen.shape([[x(i), 4], [x(i) + 5, 11], [x(i), 18], [x(i) - 5, 11]], color(reward > 0 ? "forward" : "reverse")); });
  pen.rect(x(now) - 1, 0, 2, height, color("ink"));
}

function draw() {
  const total = steps.reward.subarray(0, now + 1).reduce((a, b) => a + b, 0), after = [];
  $("slider").value = now;
  paint($("now"), steps.frame[now]);
  $("said").textContent = `Step ${now + 1} of ${last + 1}: action ${steps.action[now]}, reward ${number(steps.reward[now])}; return so far ${number(total)}.`;
  for (let step = now + 1; step <= Math.min(last, now + 6); step++) after.push({ frame: steps.frame[step], words: `step ${step + 1}` });
  tiles("next", after);
  for (const name of Object.keys(rows)) tiles(name, stored(rows[name], now, DATA.draws));
  if (DATA.bins) bins();
  timeline();
  if (!player.on) keep();
}

function go(step) {
  now = Math.max(0, Math.min(last, Math.round(step) || 0));
  draw();
}

function keep() {
  const address = `#step=${now + 1}`;
  $("link").setAttribute("href", address);
  if (location.hash !== address) try { history.replaceState(null, "", address); } catch { /* the link stays */ }
}

function step(by) { player.stop(); go(now + by); }

function nextReward(by) {
  player.stop();
  for (let i = now + by; i >= 0 && i <= last; i += by) if (steps.reward[i]) return go(i);
}

function play() {
  if (!player.on && now === last) go(0);
  player.toggle();
}

onKeys({
  " ": play, ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => step(-10), ArrowDown: () => step(10),
  Home: () => step(-now), End: () => step(last), r: () => nextReward(1), R: () => nextReward(-1), "+": () => player.faster(1), "-": () => player.faster(-1),
});
const CLICKS = { play, back: () => step(-1), on: () => step(1), reward: () => nextReward(1) };
for (const [id, act] of Object.entries(CLICKS)) $(id).addEventListener("click", act);
$("slider").max = last;
$("slider").addEventListener("input", (e) => { player.stop(); go(Number(e.target.value)); });
const restore = () => go((Number(new URLSearchParams(location.hash.slice(1)).get("step")) || 1) - 1);
addEventListener("hashchange", restore);
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
image.src = sheet.address;
image.decode().then(() => {
  tiles("most", stored(most, 0, DATA.draws * (last + 1)));
  restore();
  // For tests and for the console.
  const ids = (columns, row) => stored(columns, row, DATA.draws).map(({ id }) => id);
  window.deepViewer = {
    state: () => ({
      playing: player.on, step: now, steps: last + 1, most: ids(most, 0),
      ...Object.fromEntries(Object.keys(rows).map((name) => [name, ids(rows[name], now)])),
    }),
  };
});
})();
