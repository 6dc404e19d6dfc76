// The picture is made of square tiles, which are drawn once and then only moved. A few vertices are
// drawn in each frame, so that moving the map stays fluid however large the world is. While tiles of
// a new zoom are missing, those of the zoom before are shown in their place.

const TILE_PIXELS = 320, MOST_TILES = 160, REST_MILLISECONDS = 110;
const FRAME_MILLISECONDS = 1000 / 60, LEAST_WORK = 1500, MOST_WORK = 60000;
const canvas = document.getElementById("map");
const pen = canvas.getContext("2d");
// The view: the point of the world in the middle, and pixels for each metre.
const view = { x: 0, y: 0, zoom: 1, width: 0, height: 0, ratio: 1 };
const toScreen = (x, y) => [(x - view.x) * view.zoom + view.width / 2, (view.y - y) * view.zoom + view.height / 2];
const toWorld = (sx, sy) => [(sx - view.width / 2) / view.zoom + view.x, view.y - (sy - view.height / 2) / view.zoom];

// Sets of tiles, the newest last: those of one zoom and one choice of what is shown.
let tileSets = [];
const work = { job: null, most: 12000, last: 0, zoomedAt: -Infinity, epoch: 0 };

const newSet = (zoom) => ({ zoom, epoch: work.epoch, tiles: new Map() });

// Call it when other entities or colours are to be shown.
function showAnew() {
  work.epoch++;
  work.job = null;
  tileSets = tileSets.slice(-1);
  redraw();
}

function currentSet() {
  const newest = tileSets.at(-1);
  if (newest && newest.epoch === work.epoch && newest.zoom === view.zoom) return newest;
  // While the hand zooms, a set for each step would be drawn in vain.
  if (newest && newest.epoch === work.epoch && performance.now() - work.zoomedAt < REST_MILLISECONDS) return null;
  work.job = null;
  const made = newSet(view.zoom);
  // The first picture of the whole world stays behind all others.
  tileSets = [...tileSets.slice(0, 1), ...tileSets.slice(1).filter((one) => one.tiles.size).slice(-1), made];
  return made;
}

function* tilesInView(zoom, margin) {
  const side = TILE_PIXELS / zoom;
  const halfWidth = view.width / 2 / view.zoom, halfHeight = view.height / 2 / view.zoom;
  const west = Math.floor((view.x - halfWidth) / side) - margin, east = Math.floor((view.x + halfWidth) / side) + margin;
  const south = Math.floor((view.y - halfHeight) / side) - margin, north = Math.floor((view.y + halfHeight) / side) + margin;
  for (let row = south; row <= north; row++) {
    for (let at = west; at <= east; at++) yield [at, row];
  }
}

const isOutside = (at, row, side) =>
  at * side > everything[2] + side || (at + 1) * side < everything[0] - side ||
  row * side > everything[3] + side || (row + 1) * side < everything[1] - side;

function nextMissing(set) {
  const side = TILE_PIXELS / set.zoom;
  for (const margin of [0, 1]) {
    let best = null, nearest = Infinity;
    for (const [at, row] of tilesInView(set.zoom, margin)) {
      if (set.tiles.has(`${at}/${row}`) || isOutside(at, row, side)) continue;
      const distance = Math.hypot((at + 0.5) * side - view.x, (row + 0.5) * side - view.y);
      if (distance < nearest) { best = [at, row, margin]; nearest = distance; }
    }
    if (best) return best;
  }
  return null;
}

function startTile(set, [at, row]) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(TILE_PIXELS * view.ratio);
  const side = TILE_PIXELS / set.zoom;
  const brush = tile.getContext("2d", { alpha: false });
  work.job = { set, key: `${at}/${row}`, tile: { canvas: tile, at, row }, steps: drawTile(brush, at * side, (row + 1) * side, TILE_PIXELS, set.zoom) };
}

// Draws for about the time of a frame; returns whether everything is there.
function drawSome(set) {
  let left = work.most;
  while (left > 0) {
    if (!work.job) {
      const missing = nextMissing(set);
      if (!missing) return true;
      startTile(set, missing);
    }
    const step = work.job.steps.next();
    if (step.done) {
      work.job.set.tiles.set(work.job.key, work.job.tile);
      work.job = null;
      left -= LEAST_WORK / 4;
      if (set.tiles.size > MOST_TILES) set.tiles.delete(set.tiles.keys().next().value);
    } else left -= step.value + 200;
  }
  return false;
}

// More work in each frame while frames come in time, less when they do not.
function adapt(now) {
  const passed = now - work.last;
  work.last = now;
  if (passed > 1.6 * FRAME_MILLISECONDS) work.most = Math.max(work.most * 0.7, LEAST_WORK);
  else if (passed < 1.2 * FRAME_MILLISECONDS) work.most = Math.min(work.most * 1.1, MOST_WORK);
}

function paint() {
  const { ratio } = view;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.globalAlpha = 1;
  pen.fillStyle = palette.ground;
  pen.fillRect(0, 0, view.width, view.height);
  for (const set of tileSets) {
    const side = TILE_PIXELS / set.zoom, pixels = side * view.zoom;
    const isSharp = set.zoom === view.zoom;
    for (const { canvas: tile, at, row } of set.tiles.values()) {
      let [sx, sy] = toScreen(at * side, (row + 1) * side);
      if (sx > view.width || sy > view.height || sx + pixels < 0 || sy + pixels < 0) continue;
      if (isSharp) { sx = Math.round(sx * ratio) / ratio; sy = Math.round(sy * ratio) / ratio; }
      pen.drawImage(tile, sx, sy, pixels + (isSharp ? 0 : 0.5), pixels + (isSharp ? 0 : 0.5));
    }
  }
}

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(frame);
}

function frame(now) {
  waiting = false;
  const set = currentSet();
  let isDone = false;
  if (set) {
    adapt(now);
    isDone = drawSome(set);
  }
  paint();
  drawOverlay(isDone);
  document.documentElement.dataset.complete = isDone;
  if (!isDone) redraw();
}
