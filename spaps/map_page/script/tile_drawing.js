// Draws one tile: the world, what a search found, each stage, references. A generator, so that the
// work is spread over frames: it yields the number of vertices since the last time.

const SPECK_PIXELS = 1.3, STEP_PIXELS = 0.6, VERTICES_AT_ONCE = 1500, EDGE_PIXELS = 16;
// Below this zoom (pixels for each metre) dots are so many pixels apart, far away even more.
const THIN_ZOOM = 0.3, FAR_ZOOM = 0.12, DOTS_APART = 6, FAR_DOTS_APART = 9, DOTS_AT_ONCE = 600;
const shown = { sets: null, stages: new Set(), others: true, hits: null };
const isShownInBase = (entity) => shown.others && shown.sets[setOf(entity)] === 1;

// Adds the paths of an entity, without the vertices that nobody can see at this zoom.
function trace(pen, entity, zoom) {
  const { x, y, firstPath, firstVertex } = shapes;
  const step = STEP_PIXELS / zoom, closed = column.kinds[entity] === AREA;
  let traced = 0;
  for (let path = firstPath[entity]; path < firstPath[entity + 1]; path++) {
    const start = firstVertex[path], last = firstVertex[path + 1] - 1;
    let oldX = x[start], oldY = y[start];
    pen.moveTo(oldX, oldY);
    for (let i = start + 1; i <= last; i++) {
      if (i < last && Math.abs(x[i] - oldX) + Math.abs(y[i] - oldY) < step) continue;
      pen.lineTo(oldX = x[i], oldY = y[i]);
      traced++;
    }
    if (closed) pen.closePath();
  }
  return traced + 1;
}

// Returns one entity for each cell of the screen, by chance but always the same one, so that dots
// of all colours stay where there are too many of them. Cells do not depend on the tile.
function thinned(entities, zoom, pixels) {
  const factor = zoom / pixels, chosen = new Map();
  for (const entity of entities) {
    const [x, y] = middleOf(entity);
    const cell = Math.floor(x * factor) * 67108864 + Math.floor(y * factor);
    const other = chosen.get(cell);
    if (other === undefined || scattered(entity) < scattered(other)) chosen.set(cell, entity);
  }
  return [...chosen.values()];
}

const scattered = (entity) => Math.imul(entity + 1, 2654435761) >>> 0;

function hatching(pen, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 14;
  const brush = tile.getContext("2d");
  brush.strokeStyle = colour;
  brush.globalAlpha = 0.32;
  brush.lineWidth = 1.2;
  brush.beginPath();
  for (const shift of [-14, 0, 14]) { brush.moveTo(shift, 14); brush.lineTo(shift + 14, 0); }
  brush.stroke();
  return pen.createPattern(tile, "repeat");
}

const widthOf = ([least, metresWide, most], zoom) => Math.min(Math.max(metresWide * zoom, least), most);

function fillAndStroke(pen, kind, style, zoom, isVast) {
  const pixel = 1 / zoom;
  const width = widthOf(style.widths ?? [0.7, 2.2, 5], zoom) * pixel;
  pen.setLineDash((style.dash ?? []).map((part) => part * pixel));
  if (kind === AREA) {
    if (!isVast && (style.fill || style.hatch)) {
      pen.globalAlpha = style.hatch ? 1 : (style.fillAlpha ?? 1) * (style.alpha ?? 1);
      pen.fillStyle = style.hatch ? hatching(pen, style.line) : style.fill;
      if (style.hatch) pen.fillStyle.setTransform(new DOMMatrix().scale(pixel, -pixel));
      // Shells and holes have opposite orientation, so overlapping areas are filled as one.
      pen.fill("nonzero");
    }
    pen.globalAlpha = (style.alpha ?? 1) * (style.widths ? 1 : 0.75);
    pen.strokeStyle = style.line;
    pen.lineWidth = (style.widths ? style.edge : Math.min(Math.max(zoom, 0.35), 0.9)) * pixel;
    pen.stroke();
  } else {
    // From far away the lines of a city are a mesh, which must not be louder than everything else.
    pen.globalAlpha = style.widths ? style.alpha ?? 1 : Math.min(Math.max(5 * zoom, 0.4), 1);
    if (style.widths) {
      pen.strokeStyle = palette.paper;
      pen.lineWidth = width + 2.5 * pixel;
      pen.stroke();
    }
    pen.strokeStyle = style.line;
    pen.lineWidth = width;
    pen.stroke();
  }
}

// Draws entities of one layer; neighbors in the order that share kind and style become one path.
function* drawLayer(pen, entities, styleOf, zoom, toPixels) {
  const dots = [], specks = [], vast = span / 5;
  let open = null, traced = 0;
  const close = () => { if (open) fillAndStroke(pen, open.kind, open.style, zoom, open.isVast); open = null; };
  for (const entity of entities) {
    const kind = column.kinds[entity], size = sizeOf(entity), style = styleOf(entity);
    if (kind === POINT) { dots.push(entity); continue; }
    // What is too small to see is marked like a point where it matters, else with a speck.
    if (style.widths && size * zoom < (kind === AREA ? 5 : 1.5)) dots.push(entity);
    if (!style.widths && size * zoom < SPECK_PIXELS) { specks.push(entity); continue; }
    // A zone over the whole map would tint all of it, so only its outline is drawn.
    const isVast = kind === AREA && !style.widths && size > vast;
    if (!open || open.kind !== kind || open.style !== style || open.isVast !== isVast || traced > VERTICES_AT_ONCE) {
      close();
      if (traced > VERTICES_AT_ONCE) { yield traced; traced = 0; }
      open = { kind, style, isVast };
      pen.beginPath();
    }
    traced += trace(pen, entity, zoom);
  }
  close();
  yield traced;
  pen.save();
  pen.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
  yield drawMarks(pen, thinned(specks, zoom, 1.3), styleOf, toPixels, 0.6);
  yield entities.length / 4;
  yield* drawDots(pen, dots, styleOf, zoom, toPixels);
  pen.restore();
}

function* drawDots(pen, entities, styleOf, zoom, toPixels) {
  if (!entities.length) return;
  const { radius = 2.3, widths } = styleOf(entities[0]), strong = Boolean(widths);
  const size = radius * Math.min(Math.max(Math.sqrt(zoom / 0.6), strong ? 0.7 : 0.5), 1.6);
  const apart = strong ? (zoom < THIN_ZOOM ? 2.4 : 1.2) * size : zoom < FAR_ZOOM ? FAR_DOTS_APART : zoom < THIN_ZOOM ? DOTS_APART : 1.2 * size;
  const chosen = thinned(entities, zoom, apart);
  yield entities.length;
  // All outlines first: those of later dots would cut into earlier ones.
  for (const isOutline of strong ? [true, false] : [false]) {
    for (let at = 0; at < chosen.length; at += DOTS_AT_ONCE) {
      yield 5 * drawMarks(pen, chosen.slice(at, at + DOTS_AT_ONCE), styleOf, toPixels, size, true, isOutline);
    }
  }
}

// Fills discs or squares, or draws their outlines, all of a style at once; returns how many.
function drawMarks(pen, entities, styleOf, toPixels, size, isDisc = false, isOutline = false) {
  const byStyle = new Map();
  for (const entity of entities) {
    const style = styleOf(entity);
    if (byStyle.has(style)) byStyle.get(style).push(entity); else byStyle.set(style, [entity]);
  }
  for (const [style, members] of byStyle) {
    pen.globalAlpha = style.alpha ?? 1;
    pen.fillStyle = style.dot;
    pen.beginPath();
    for (const entity of members) {
      const [sx, sy] = toPixels(...middleOf(entity));
      if (isDisc) { pen.moveTo(sx + size, sy); pen.arc(sx, sy, size, 0, 2 * Math.PI); }
      else pen.rect(sx - size, sy - size, 2 * size, 2 * size);
    }
    if (!isOutline) { pen.fill(); continue; }
    pen.strokeStyle = palette.paper;
    pen.lineWidth = 1.6;
    pen.stroke();
  }
  return entities.length;
}

// Draws the window of the world that begins at (west, north) onto a canvas of a tile.
function* drawTile(pen, west, north, pixels, zoom) {
  const { ratio } = view, reach = EDGE_PIXELS / zoom, side = pixels / zoom;
  const toPixels = (x, y) => [(x - west) * zoom, (north - y) * zoom];
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.globalAlpha = 1;
  pen.fillStyle = palette.ground;
  pen.fillRect(0, 0, pen.canvas.width, pen.canvas.height);
  pen.setTransform(ratio * zoom, 0, 0, -ratio * zoom, -west * zoom * ratio, north * zoom * ratio);
  pen.lineJoin = pen.lineCap = "round";
  const entities = [];
  for (const rank of ranksIn(west - reach, north - side - reach, west + side + reach, north + reach)) entities.push(byRank[rank]);
  yield entities.length;
  const styles = tops.map((_, top) => baseStyle(top));
  if (isStaged()) styles.fill(styles[0]);
  yield* drawLayer(pen, entities.filter(isShownInBase), (entity) => styles[colourOf(entity)], zoom, toPixels);
  if (shown.hits) {
    // A veil over the world, so that what was found is seen first.
    pen.globalAlpha = 0.45;
    pen.fillStyle = palette.ground;
    pen.fillRect(west, north - side, side, side);
    const style = hitStyle();
    yield* drawLayer(pen, entities.filter((entity) => shown.hits.has(entity)), () => style, zoom, toPixels);
  }
  const staged = entities.filter((entity) => stagesOf.has(entity));
  for (const number of [...world.stages.map((stage) => stage.number), 0]) {
    if (!shown.stages.has(number)) continue;
    const members = staged.filter((entity) => stagesOf.get(entity).includes(number)), style = stageStyle(number);
    if (members.length) yield* drawLayer(pen, members, () => style, zoom, toPixels);
  }
}
