// Legend, pointer, touch, wheel and keys. Text from data is set as text, never as markup.

const byId = (id) => document.getElementById(id);
const element = (tag, text, className) => {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (className) made.className = className;
  return made;
};
const counted = (number) => number.toLocaleString("en");

// Draws at once while that is little work. Otherwise it moves the last picture, and draws again when
// the pointer rests. (Time cannot be measured here: the canvas paints after this code returns.)
const MANY_VERTICES = 150000, REST_MILLISECONDS = 140;
const picture = { view: null, rest: 0, waiting: false, copy: document.createElement("canvas") };
const isMuchWork = () => layers.reduce((sum, made) => sum + (made.shown ? made.vertices : 0), 0) > MANY_VERTICES;

function drawTruly() {
  drawAll();
  picture.view = { ...view };
  if (isMuchWork()) {
    picture.copy.width = canvas.width;
    picture.copy.height = canvas.height;
    picture.copy.getContext("2d").drawImage(canvas, 0, 0);
  }
  document.documentElement.dataset.drawn = entities.filter(isShown).length;
}

function drawQuickly() {
  const old = picture.view, factor = view.zoom / old.zoom;
  const [x, y] = toScreen(old.x, old.y);
  pen.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
  pen.clearRect(0, 0, view.width, view.height);
  pen.drawImage(picture.copy, x - (old.width * factor) / 2, y - (old.height * factor) / 2, old.width * factor, old.height * factor);
  clearTimeout(picture.rest);
  picture.rest = setTimeout(drawTruly, REST_MILLISECONDS);
}

function redraw() {
  if (picture.waiting) return;
  picture.waiting = true;
  requestAnimationFrame(() => {
    picture.waiting = false;
    const sameSize = picture.view && picture.view.width === view.width && picture.view.height === view.height;
    if (sameSize && isMuchWork()) drawQuickly(); else drawTruly();
    drawScale();
  });
}

function drawScale() {
  const room = 120 / view.zoom;
  const power = 10 ** Math.floor(Math.log10(room));
  const metres = [5, 2, 1].map((step) => step * power).find((length) => length <= room) ?? power;
  const bar = document.querySelector("#scale span");
  bar.style.width = `${metres * view.zoom}px`;
  bar.textContent = metres >= 1000 ? `${metres / 1000} km` : `${Number(metres.toPrecision(1))} m`;
}

function resize() {
  const { width, height } = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  if (width === view.width && height === view.height && ratio === view.ratio) return;
  Object.assign(view, { width, height, ratio });
  // Setting the size of a canvas empties it. It is drawn at once, so that it does not flicker.
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  drawTruly();
  drawScale();
}

function fit() {
  const drawn = entities.filter((entity) => entity.stages.length);
  const [west, south, east, north] = drawn.length ? joinBoxes(drawn.map((entity) => entity.box)) : everything;
  const margin = Math.min(48, view.width / 10);
  const zoom = Math.min((view.width - 2 * margin) / Math.max(east - west, 60), (view.height - 2 * margin) / Math.max(north - south, 60));
  Object.assign(view, { x: (west + east) / 2, y: (south + north) / 2, zoom });
  redraw();
}

function zoomAt(factor, sx = view.width / 2, sy = view.height / 2) {
  const [x, y] = toWorld(sx, sy);
  view.zoom = Math.min(Math.max(view.zoom * factor, view.width / span / 8), 60);
  const [newX, newY] = toWorld(sx, sy);
  view.x += x - newX;
  view.y += y - newY;
  redraw();
}

function describe(entity, heading) {
  const where = entity.stages.map((number) => (number ? `stage ${number}` : "reference")).join(", ");
  const categories = entity.categories.map((code) => world.categories[code]).join(", ");
  return [
    element(heading, entity.name || categories.split(", ")[0]),
    element("div", `peid ${entity.peid}`),
    element("div", categories),
    element("div", where || "not in the neighborhood"),
  ];
}

function showTip(entity, sx, sy) {
  const tip = byId("tip");
  tip.hidden = !entity;
  canvas.classList.toggle("over", Boolean(entity));
  if (!entity) return;
  tip.replaceChildren(...describe(entity, "strong"));
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, sx + 16 + box.width > view.width ? sx - box.width - 12 : sx + 16)}px`;
  tip.style.top = `${Math.max(4, Math.min(sy + 16, view.height - box.height - 4))}px`;
}

function showPicked(entity) {
  const panel = byId("picked");
  panel.hidden = !entity;
  if (entity) panel.replaceChildren(...describe(entity, "h2"));
}

function legendEntry(key, number, label, count, words, className) {
  const row = element("li", "", className), line = element("label"), box = element("input"), swatch = element("i", number);
  box.type = "checkbox";
  box.checked = true;
  box.addEventListener("change", () => {
    layers.find((made) => made.key === key).shown = box.checked;
    drawTruly();
  });
  line.append(box, swatch, element("span", label), element("b", counted(count)));
  if (words) line.append(element("small", words));
  row.append(line);
  byId("legend").append(row);
  return swatch;
}

function fillPanel() {
  document.querySelector("h1").textContent = world.title;
  byId("facts").textContent = world.facts;
  byId("notation").textContent = world.notation;
  byId("attribution").textContent = world.attribution;
  byId("note").textContent = world.note;
  byId("note").hidden = !world.note;
  legendEntry(REFERENCE, "", "References", entities.filter((entity) => entity.stages.includes(0)).length, world.references, "reference");
  for (const stage of world.stages) {
    const label = stage.visible ? `Stage ${stage.number}` : `Stage ${stage.number} (not in the result)`;
    const swatch = legendEntry(String(stage.number), String(stage.number), label, stage.count, stage.words, stage.visible ? "" : "hidden");
    swatch.style[stage.visible ? "background" : "color"] = stage.colour;
  }
  legendEntry(GREY, "", "Other entities", entities.filter((entity) => !entity.stages.length).length, "", "grey");
}

const hands = new Map();
let moved = 0;
const placeOf = (event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
const middleAndSpread = () => {
  const [[ax, ay], [bx, by]] = [...hands.values()];
  return [(ax + bx) / 2, (ay + by) / 2, Math.hypot(ax - bx, ay - by) || 1];
};

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  hands.set(event.pointerId, placeOf(event));
  if (hands.size === 1) moved = 0;
  canvas.classList.add("dragging");
});
canvas.addEventListener("pointermove", (event) => {
  const now = placeOf(event), before = hands.get(event.pointerId);
  if (!before) {
    showTip(pick(...now), ...now);
    return;
  }
  moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
  const old = hands.size === 2 ? middleAndSpread() : [...before, 1];
  hands.set(event.pointerId, now);
  const fresh = hands.size === 2 ? middleAndSpread() : [...now, 1];
  view.x -= (fresh[0] - old[0]) / view.zoom;
  view.y += (fresh[1] - old[1]) / view.zoom;
  if (hands.size === 2) zoomAt(fresh[2] / old[2], fresh[0], fresh[1]);
  showTip(null);
  redraw();
});
for (const ending of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(ending, (event) => {
    const wasOne = hands.size === 1;
    hands.delete(event.pointerId);
    canvas.classList.remove("dragging");
    if (ending === "pointerup" && wasOne && moved < 6) {
      showPicked(pick(...placeOf(event), event.pointerType === "touch" ? 16 : REACH_PIXELS));
    }
  });
}
canvas.addEventListener("pointerleave", () => showTip(null));
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 24 : 1;
  zoomAt(Math.exp((-event.deltaY * lines) / 400), ...placeOf(event));
}, { passive: false });

const does = { in: () => zoomAt(1.6), out: () => zoomAt(1 / 1.6), fit };
for (const button of document.querySelectorAll("#buttons button")) {
  button.addEventListener("click", does[button.dataset.does]);
}
canvas.addEventListener("keydown", (event) => {
  const step = 80 / view.zoom;
  const keys = {
    "+": does.in, "=": does.in, "-": does.out, 0: fit,
    ArrowLeft: () => { view.x -= step; }, ArrowRight: () => { view.x += step; },
    ArrowUp: () => { view.y += step; }, ArrowDown: () => { view.y -= step; },
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
  redraw();
});

fillPanel();
resize();
fit();
drawTruly();
drawScale();
new ResizeObserver(resize).observe(canvas);
