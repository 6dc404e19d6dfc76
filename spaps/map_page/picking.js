// Which entity is under the pointer: a grid of cells finds a few candidates, then the distance
// in pixels decides. Members go before grey ones, points before lines before areas.

const CELLS = 96;
const REACH_PIXELS = 7;
const cell = span / CELLS;
const grid = new Map();
const vast = [];

entities.forEach((entity, at) => {
  const [west, south, east, north] = entity.box;
  const columns = Math.floor(east / cell) - Math.floor(west / cell) + 1;
  const rows = Math.floor(north / cell) - Math.floor(south / cell) + 1;
  // A large zone in every cell would cost more than all other entities together.
  if (columns * rows > 400) { vast.push(at); return; }
  for (let column = 0; column < columns; column++) {
    for (let row = 0; row < rows; row++) {
      const key = `${Math.floor(west / cell) + column}/${Math.floor(south / cell) + row}`;
      if (grid.has(key)) grid.get(key).push(at); else grid.set(key, [at]);
    }
  }
});

function candidates(x, y, reach) {
  const found = new Set(vast);
  for (let column = Math.floor((x - reach) / cell); column <= Math.floor((x + reach) / cell); column++) {
    for (let row = Math.floor((y - reach) / cell); row <= Math.floor((y + reach) / cell); row++) {
      for (const at of grid.get(`${column}/${row}`) ?? []) found.add(at);
    }
  }
  return found;
}

function distanceToPath(part, x, y, closed) {
  let best = Infinity;
  const last = closed ? part.length : part.length - 2;
  for (let i = 0; i < last; i += 2) {
    const j = (i + 2) % part.length;
    const dx = part[j] - part[i], dy = part[j + 1] - part[i + 1];
    const length = dx * dx + dy * dy;
    const along = length ? Math.min(Math.max(((x - part[i]) * dx + (y - part[i + 1]) * dy) / length, 0), 1) : 0;
    best = Math.min(best, Math.hypot(part[i] + along * dx - x, part[i + 1] + along * dy - y));
  }
  return best;
}

function isInside(parts, x, y) {
  let inside = false;
  for (const part of parts) {
    for (let i = 0, j = part.length - 2; i < part.length; j = i, i += 2) {
      const above = part[i + 1] > y, other = part[j + 1] > y;
      if (above !== other && x < ((part[j] - part[i]) * (y - part[i + 1])) / (part[j + 1] - part[i + 1]) + part[i]) {
        inside = !inside;
      }
    }
  }
  return inside;
}

function distanceTo({ kind, parts, box }, x, y, reach) {
  if (x < box[0] - reach || y < box[1] - reach || x > box[2] + reach || y > box[3] + reach) return Infinity;
  if (kind === POINT) return Math.min(...parts.map((part) => Math.hypot(part[0] - x, part[1] - y)));
  if (kind === AREA && isInside(parts, x, y)) return 0;
  return Math.min(...parts.map((part) => distanceToPath(part, x, y, kind === AREA)));
}

// Outermost first: a stage, then the kind of shape, then the smaller area, then the nearer one.
function rankOf(entity, distance) {
  const [west, south, east, north] = entity.box;
  const size = entity.kind === AREA ? (east - west) * (north - south) : 0;
  return [entity.stages.length ? 0 : 1, entity.kind, size, distance];
}

function isShown(entity) {
  if (!entity.stages.length) return layers[0].shown;
  return layers.some((made) => made.shown && entity.stages.some((number) => made.key === (number ? String(number) : REFERENCE)));
}

function pick(sx, sy, pixels = REACH_PIXELS) {
  const [x, y] = toWorld(sx, sy);
  const reach = pixels / view.zoom;
  let best = null, bestRank = null;
  for (const at of candidates(x, y, reach)) {
    const entity = entities[at];
    const distance = isShown(entity) ? distanceTo(entity, x, y, reach) : Infinity;
    if (distance > reach) continue;
    const rank = rankOf(entity, distance);
    const first = bestRank && rank.findIndex((value, place) => value !== bestRank[place]);
    if (!bestRank || (first >= 0 && rank[first] < bestRank[first])) { best = entity; bestRank = rank; }
  }
  return best;
}
