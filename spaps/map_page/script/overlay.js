// What is drawn anew in each frame, above the tiles: labels, the entity under the pointer, what is
// selected, and the scale.

const MOST_LABELS = 60, LABEL_ROOM = 6;
const overlay = { selected: [], hovered: null, labels: [], chosenAt: "", scale: "", marksMiddle: false };

function outline(entities, colour, width) {
  const { ratio, zoom } = view;
  pen.save();
  pen.setTransform(ratio * zoom, 0, 0, -ratio * zoom, ratio * (view.width / 2 - view.x * zoom), ratio * (view.height / 2 + view.y * zoom));
  pen.lineJoin = pen.lineCap = "round";
  for (const [stroke, extra] of [[palette.paper, 4], [colour, 0]]) {
    pen.strokeStyle = pen.fillStyle = stroke;
    pen.lineWidth = (width + extra) / zoom;
    pen.beginPath();
    for (const entity of entities) {
      const [x, y] = middleOf(entity), radius = (width + 3) / zoom;
      if (column.kinds[entity] !== POINT) trace(pen, entity, zoom);
      if (column.kinds[entity] === POINT || sizeOf(entity) * zoom < 4) {
        pen.moveTo(x + radius, y);
        pen.arc(x, y, radius, 0, 2 * Math.PI);
      }
    }
    pen.stroke();
  }
  pen.restore();
}

const LETTERS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const fontOf = (label) => `${label.strong ? "600 13px" : "500 11.5px"} ${LETTERS}`;

function labelCandidates() {
  const [west, north] = toWorld(0, 0), [east, south] = toWorld(view.width, view.height);
  const found = [], least = view.zoom > 1.2 ? 0 : 46;
  for (const rank of ranksIn(west, south, east, north)) {
    const entity = byRank[rank], name = nameOf(entity), size = sizeOf(entity) * view.zoom;
    if (!name || !isShown(entity) || name.length > 40) continue;
    const isPoint = column.kinds[entity] === POINT;
    if (isPoint ? view.zoom < 0.9 : size < least || size > 3 * view.width) continue;
    const staged = stagesOf.has(entity) || shown.hits?.has(entity);
    found.push({ entity, name, strong: size > 160 && column.kinds[entity] === AREA, order: size + (staged ? 400 : 0) + (column.kinds[entity] === AREA ? 80 : 0) });
    if (found.length > 20000) break;
  }
  return found.sort((a, b) => b.order - a.order);
}

// Chooses labels that do not cover each other, the largest entities first, each name once.
function chooseLabels() {
  // Free of labels: the scale, the buttons, and the line about sources.
  const { width: right, height: bottom } = view, names = new Set(), chosen = [];
  const boxes = [[0, bottom - 40, 300, bottom], [right - 60, 0, right, 140], [right - 260, bottom - 24, right, bottom]];
  for (const label of labelCandidates()) {
    if (chosen.length >= MOST_LABELS) break;
    if (names.has(label.name)) continue;
    const [x, y] = labelPlace(label.entity), [sx, sy] = toScreen(x, y);
    pen.font = fontOf(label);
    const width = pen.measureText(label.name).width, shift = column.kinds[label.entity] === POINT ? 12 : 0;
    const box = [sx - width / 2 - LABEL_ROOM, sy + shift - 8 - LABEL_ROOM, sx + width / 2 + LABEL_ROOM, sy + shift + 8 + LABEL_ROOM];
    if (box[0] < 0 || box[1] < 0 || box[2] > view.width || box[3] > view.height) continue;
    // A name that is much longer than its street or area belongs to the eye to something else.
    if (column.kinds[label.entity] !== POINT && width > 2.2 * sizeOf(label.entity) * view.zoom) continue;
    if (boxes.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) continue;
    boxes.push(box);
    names.add(label.name);
    chosen.push({ ...label, x, y, shift });
  }
  return chosen;
}

// The middle of an area's box, or the vertex in the middle of a line.
function labelPlace(entity) {
  if (column.kinds[entity] !== LINE) return middleOf(entity);
  const path = shapes.firstPath[entity];
  const at = Math.floor((shapes.firstVertex[path] + shapes.firstVertex[path + 1] - 1) / 2);
  const next = Math.min(at + 1, shapes.firstVertex[path + 1] - 1);
  return [(shapes.x[at] + shapes.x[next]) / 2, (shapes.y[at] + shapes.y[next]) / 2];
}

function drawLabels() {
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineJoin = "round";
  for (const label of overlay.labels) {
    const [sx, sy] = toScreen(label.x, label.y);
    pen.font = fontOf(label);
    pen.strokeStyle = palette.ground;
    pen.lineWidth = 3.5;
    pen.globalAlpha = 0.9;
    pen.strokeText(label.name, sx, sy + label.shift);
    pen.globalAlpha = 1;
    pen.fillStyle = palette.ink;
    pen.fillText(label.name, sx, sy + label.shift);
  }
}

function drawOverlay(isDone) {
  pen.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
  const scale = `${view.zoom} ${work.epoch}`, place = `${view.x} ${view.y} ${view.width} ${view.height} ${scale}`;
  // Labels are chosen when the picture is complete and rests, and move along until then.
  if (isDone && hands.size === 0 && place !== overlay.chosenAt) {
    overlay.labels = chooseLabels();
    Object.assign(overlay, { chosenAt: place, scale });
  } else if (scale !== overlay.scale) overlay.labels = [];
  drawLabels();
  if (overlay.hovered !== null) outline([overlay.hovered], palette.ink, 2);
  // Several are marked in the tiles.
  if (overlay.selected.length === 1 || !shown.hits) outline(overlay.selected, palette.accent, 3.5);
  if (overlay.marksMiddle) drawCross();
  drawScale();
}

// With keys, Enter takes what is in the middle.
function drawCross() {
  const x = view.width / 2, y = view.height / 2;
  pen.beginPath();
  for (const [dx, dy] of [[9, 0], [0, 9]]) { pen.moveTo(x - dx, y - dy); pen.lineTo(x + dx, y + dy); }
  pen.strokeStyle = palette.ink;
  pen.lineWidth = 1.5;
  pen.stroke();
}

function drawScale() {
  const room = 120 / view.zoom;
  const power = 10 ** Math.floor(Math.log10(room));
  const length = [5, 2, 1].map((step) => step * power).find((one) => one <= room) ?? power;
  const bar = document.querySelector("#scale span");
  byId("thinned").hidden = view.zoom >= THIN_ZOOM || !hasPoints;
  bar.style.width = `${length * view.zoom}px`;
  bar.textContent = length >= 1000 ? `${length / 1000} km` : `${Number(length.toPrecision(1))} m`;
}
