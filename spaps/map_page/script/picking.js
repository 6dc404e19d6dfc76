// Which entity is under the pointer: the grid finds a few candidates, then the distance in pixels
// decides. Members of stages go before others, points before lines before areas.

const REACH_PIXELS = 7;

function distanceToPath(path, px, py, closed) {
  const { x, y, firstVertex } = shapes;
  const start = firstVertex[path], end = firstVertex[path + 1];
  let best = Math.hypot(x[start] - px, y[start] - py);
  for (let i = start; i < (closed ? end : end - 1); i++) {
    const j = i + 1 < end ? i + 1 : start;
    const dx = x[j] - x[i], dy = y[j] - y[i], length = dx * dx + dy * dy;
    const along = length ? Math.min(Math.max(((px - x[i]) * dx + (py - y[i]) * dy) / length, 0), 1) : 0;
    best = Math.min(best, Math.hypot(x[i] + along * dx - px, y[i] + along * dy - py));
  }
  return best;
}

function isInside(entity, px, py) {
  const { x, y, firstPath, firstVertex } = shapes;
  let inside = false;
  for (let path = firstPath[entity]; path < firstPath[entity + 1]; path++) {
    const start = firstVertex[path], end = firstVertex[path + 1];
    for (let i = start, j = end - 1; i < end; j = i++) {
      if ((y[i] > py) !== (y[j] > py) && px < ((x[j] - x[i]) * (py - y[i])) / (y[j] - y[i]) + x[i]) inside = !inside;
    }
  }
  return inside;
}

function distanceTo(entity, px, py) {
  const isArea = column.kinds[entity] === AREA;
  if (isArea && isInside(entity, px, py)) return 0;
  let best = Infinity;
  for (let path = shapes.firstPath[entity]; path < shapes.firstPath[entity + 1]; path++) {
    best = Math.min(best, distanceToPath(path, px, py, isArea));
  }
  return best;
}

function isShown(entity) {
  const stages = stagesOf.get(entity);
  if (stages) return stages.some((number) => shown.stages.has(number));
  return isShownInBase(entity) || Boolean(shown.hits?.has(entity));
}

// Outermost first: a stage, then the kind of shape, then the smaller area, then the nearer one.
function pick(sx, sy, pixels = REACH_PIXELS) {
  const [px, py] = toWorld(sx, sy), reach = pixels / view.zoom;
  let best = null, bestOrder = null;
  for (const rank of ranksIn(px - reach, py - reach, px + reach, py + reach)) {
    const entity = byRank[rank];
    if (!isShown(entity)) continue;
    const distance = distanceTo(entity, px, py), kind = column.kinds[entity];
    if (distance > reach) continue;
    const order = [stagesOf.has(entity) || shown.hits?.has(entity) ? 0 : 1, kind, kind === AREA ? sizeOf(entity) : 0, distance];
    const differs = bestOrder ? order.findIndex((value, place) => value !== bestOrder[place]) : 0;
    if (differs >= 0 && (!bestOrder || order[differs] < bestOrder[differs])) { best = entity; bestOrder = order; }
  }
  return best;
}
