// Pointer, touch, wheel and keys; and the start of the page.

const LARGEST_ZOOM = 60, LEAST_METRES = 60;
const limitedZoom = (zoom) => Math.min(Math.max(zoom, view.width / span / 8), LARGEST_ZOOM);

function resize() {
  const { width, height } = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  if (width === view.width && height === view.height && ratio === view.ratio) return;
  if (ratio !== view.ratio) tileSets = [];
  Object.assign(view, { width, height, ratio });
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  // Setting the size of a canvas empties it. It is painted at once, so that it does not flicker.
  paint();
  redraw();
}

function lookAt([west, south, east, north], least = LEAST_METRES) {
  const margin = Math.min(48, view.width / 10);
  const zoom = Math.min((view.width - 2 * margin) / Math.max(east - west, least), (view.height - 2 * margin) / Math.max(north - south, least));
  Object.assign(view, { x: (west + east) / 2, y: (south + north) / 2, zoom: limitedZoom(zoom) });
  moved();
}

const show = (entities) => lookAt(joinedBox(entities), 4 * LEAST_METRES);
const fit = () => lookAt(stagesOf.size ? joinedBox(stagesOf.keys()) : everything);

function moved() {
  keepLink();
  redraw();
}

function zoomAt(factor, sx = view.width / 2, sy = view.height / 2) {
  const [x, y] = toWorld(sx, sy);
  view.zoom = limitedZoom(view.zoom * factor);
  const [newX, newY] = toWorld(sx, sy);
  view.x += x - newX;
  view.y += y - newY;
  work.zoomedAt = performance.now();
  moved();
}

function showTip(entity, sx, sy) {
  const tip = byId("tip");
  tip.hidden = entity === null;
  canvas.classList.toggle("over", entity !== null);
  if (overlay.hovered !== entity) { overlay.hovered = entity; redraw(); }
  if (entity === null) return;
  tip.replaceChildren(...describe(entity));
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, sx + 16 + box.width > view.width ? sx - box.width - 12 : sx + 16)}px`;
  tip.style.top = `${Math.max(4, Math.min(sy + 16, view.height - box.height - 4))}px`;
}

const hands = new Map();
let travelled = 0;
const placeOf = (event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
const middleAndSpread = () => {
  const [[ax, ay], [bx, by]] = [...hands.values()];
  return [(ax + bx) / 2, (ay + by) / 2, Math.hypot(ax - bx, ay - by) || 1];
};

function listenToHands() {
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    hands.set(event.pointerId, placeOf(event));
    if (hands.size === 1) travelled = 0;
    canvas.classList.add("dragging");
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = placeOf(event), before = hands.get(event.pointerId);
    if (!before) {
      showTip(pick(...now), ...now);
      return;
    }
    travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
    const old = hands.size === 2 ? middleAndSpread() : [...before, 1];
    hands.set(event.pointerId, now);
    const fresh = hands.size === 2 ? middleAndSpread() : [...now, 1];
    view.x -= (fresh[0] - old[0]) / view.zoom;
    view.y += (fresh[1] - old[1]) / view.zoom;
    if (hands.size === 2) zoomAt(fresh[2] / old[2], fresh[0], fresh[1]);
    showTip(null);
    moved();
  });
  for (const ending of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(ending, (event) => {
      const wasOne = hands.size === 1;
      hands.delete(event.pointerId);
      canvas.classList.remove("dragging");
      if (ending === "pointerup" && wasOne && travelled < 6) choose(...placeOf(event), event.pointerType === "touch" ? 16 : REACH_PIXELS);
      redraw();
    });
  }
  canvas.addEventListener("pointerleave", () => showTip(null));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 24 : 1;
    zoomAt(Math.exp((-event.deltaY * lines) / 400), ...placeOf(event));
  }, { passive: false });
}

function choose(sx, sy, pixels) {
  const entity = pick(sx, sy, pixels);
  select(entity === null ? [] : [entity]);
}

function listenToKeys() {
  const does = { in: () => zoomAt(1.6), out: () => zoomAt(1 / 1.6), fit };
  for (const one of document.querySelectorAll("#buttons button")) one.addEventListener("click", does[one.dataset.does]);
  canvas.addEventListener("keydown", (event) => {
    const step = 80 / view.zoom;
    const keys = {
      "+": does.in, "=": does.in, "-": does.out, 0: fit,
      ArrowLeft: () => { view.x -= step; }, ArrowRight: () => { view.x += step; },
      ArrowUp: () => { view.y += step; }, ArrowDown: () => { view.y -= step; },
      Enter: () => choose(view.width / 2, view.height / 2, 12), Escape: () => { select([]); clearHits(); },
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    overlay.marksMiddle = true;
    keys[event.key]();
    moved();
  });
  canvas.addEventListener("blur", () => { overlay.marksMiddle = false; redraw(); });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || ["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement.tagName)) return;
    event.preventDefault();
    byId("search").focus();
  });
}

function listenToSearch() {
  const box = byId("search");
  box.addEventListener("input", offer);
  box.addEventListener("focus", foldAll);
  box.addEventListener("blur", closeSuggestions);
  box.addEventListener("keydown", (event) => {
    const keys = {
      ArrowDown: () => activate(search.active + 1), ArrowUp: () => activate(search.active - 1),
      Enter: () => (search.active >= 0 ? accept(search.active) : acceptAll()),
      Escape: () => { box.value = search.text = ""; offer(); select([]); clearHits(); },
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  for (const id of ["relation", "pattern"]) byId(id).addEventListener("change", showNeighborhood);
  byId("copyNeighborhood").addEventListener("click", () => copy(byId("neighborhood").value, byId("copyNeighborhood")));
  byId("copyLink").addEventListener("click", () => copy(`${location.href.split("#")[0]}${linkText()}`, byId("copyLink")));
}

function fillTexts() {
  document.querySelector("h1").textContent = world.title;
  byId("facts").textContent = world.facts;
  byId("notation").textContent = world.notation;
  byId("descriptor").hidden = !world.notation;
  byId("attribution").textContent = world.attribution;
  byId("note").textContent = world.note;
  byId("note").hidden = !world.note;
}

function dress() {
  readPalette();
  colourCategories();
  tileSets = [];
  showAnew();
}

async function start() {
  fillTexts();
  await unpackColumns();
  unpackShapes();
  unpackStages();
  readColours();
  buildGrid();
  readPalette();
  colourCategories();
  const box = canvas.getBoundingClientRect();
  Object.assign(view, { width: box.width, height: box.height });
  const hasView = readLink();
  fillStages();
  fillCategories();
  applyFilter();
  view.width = 0;
  resize();
  if (!hasView) (overlay.selected.length ? show(overlay.selected) : fit());
  listenToHands();
  listenToKeys();
  listenToSearch();
  darkPage.addEventListener("change", dress);
  window.addEventListener("hashchange", () => {
    if (location.hash === kept) return;
    select([]);
    shown.hits = null;
    if (!readLink()) fit();
    applyFilter();
    showAnew();
  });
  new ResizeObserver(resize).observe(canvas);
  byId("loading").remove();
  document.documentElement.dataset.ready = "yes";
  // The first search need not wait then.
  (window.requestIdleCallback ?? setTimeout)(foldAll);
}

start().catch((error) => { byId("loading").textContent = `This page cannot be shown: ${error.message}`; });
