// Draws layers: one for the grey world, one for each stage, one for references.
// A layer keeps its lines and areas as paths in world units, so that moving the map costs a few
// calls to the canvas however many entities there are.

const world = JSON.parse(document.getElementById("world").textContent);
const canvas = document.getElementById("map");
const pen = canvas.getContext("2d");
const GREY = "grey", REFERENCE = "reference";
const POINT = 0, LINE = 1, AREA = 2;

// Parts are flat lists of differences in units of 1 / perMetre; undone once, here.
function decode(parts) {
  return parts.map((part) => {
    const flat = new Float64Array(part.length);
    let x = 0, y = 0;
    for (let i = 0; i < part.length; i += 2) {
      flat[i] = x += part[i] / world.perMetre;
      flat[i + 1] = y += part[i + 1] / world.perMetre;
    }
    return flat;
  });
}

function boxOf(parts) {
  let west = Infinity, south = Infinity, east = -Infinity, north = -Infinity;
  for (const part of parts) {
    for (let i = 0; i < part.length; i += 2) {
      if (part[i] < west) west = part[i];
      if (part[i] > east) east = part[i];
      if (part[i + 1] < south) south = part[i + 1];
      if (part[i + 1] > north) north = part[i + 1];
    }
  }
  return [west, south, east, north];
}

const entities = world.entities.map(([peid, name, categories, kind, parts, stages]) => {
  const shape = decode(parts);
  return { peid, name, categories, kind, stages, parts: shape, box: boxOf(shape) };
});

function joinBoxes(boxes) {
  return boxes.reduce((all, box) => [
    Math.min(all[0], box[0]), Math.min(all[1], box[1]),
    Math.max(all[2], box[2]), Math.max(all[3], box[3]),
  ], [Infinity, Infinity, -Infinity, -Infinity]);
}

const everything = joinBoxes(entities.map((entity) => entity.box));
const span = Math.max(everything[2] - everything[0], everything[3] - everything[1], 1);

function layer(key, members, style) {
  const made = { key, style, shown: true, vertices: 0, points: [], specks: [], lines: new Path2D(), areas: new Path2D(), outlines: new Path2D() };
  for (const entity of members) {
    const [west, south, east, north] = entity.box;
    // A grey zone over the whole map would tint all of it, so only its outline is drawn.
    const vast = key === GREY && Math.max(east - west, north - south) > span / 5;
    if (key !== GREY && entity.kind === AREA) made.specks.push(entity);
    for (const part of entity.parts) {
      made.vertices += part.length / 2;
      if (entity.kind === POINT) { made.points.push(part[0], part[1]); continue; }
      const path = entity.kind === LINE ? made.lines : vast ? made.outlines : made.areas;
      path.moveTo(part[0], part[1]);
      for (let i = 2; i < part.length; i += 2) path.lineTo(part[i], part[i + 1]);
      if (entity.kind === AREA) path.closePath();
    }
  }
  return made;
}

function hatching(colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 14;
  const brush = tile.getContext("2d");
  brush.strokeStyle = colour;
  brush.lineWidth = 1.2;
  brush.beginPath();
  for (const shift of [-14, 0, 14]) { brush.moveTo(shift, 14); brush.lineTo(shift + 14, 0); }
  brush.stroke();
  return pen.createPattern(tile, "repeat");
}

const inStage = (number) => entities.filter((entity) => entity.stages.includes(number));
const layers = [
  layer(GREY, entities.filter((entity) => !entity.stages.length), {
    fill: "#ebebe6", line: "#bfc2c1", edge: "#d3d5d3", dot: "#b4b8b8", thin: [0.7, 2.2, 5], radius: 2,
  }),
  ...world.stages.map((stage) => layer(String(stage.number), inStage(stage.number), {
    fill: stage.colour, line: stage.colour, edge: stage.colour, dot: stage.colour,
    thin: [2.4, 4.5, 9], radius: stage.visible ? 5 : 4, fillAlpha: stage.visible ? 0.28 : 0.1,
    alpha: stage.visible ? 1 : 0.6, dash: stage.visible ? null : [5, 4], casing: stage.visible,
  })),
  layer(REFERENCE, inStage(0), {
    line: "#1d2328", edge: "#1d2328", dot: "#1d2328", hatch: hatching("#1d232850"),
    thin: [4, 6, 11], radius: 7, casing: true,
  }),
];

// The view: the point of the world in the middle, and pixels for each metre.
const view = { x: 0, y: 0, zoom: 1, width: 0, height: 0, ratio: 1 };
const toScreen = (x, y) => [(x - view.x) * view.zoom + view.width / 2, (view.y - y) * view.zoom + view.height / 2];
const toWorld = (sx, sy) => [(sx - view.width / 2) / view.zoom + view.x, view.y - (sy - view.height / 2) / view.zoom];

function drawPaths(made) {
  const { style } = made;
  const pixel = 1 / view.zoom;
  const [least, metres, most] = style.thin;
  const width = Math.min(Math.max(metres * view.zoom, least), most) * pixel;
  pen.globalAlpha = (style.fillAlpha ?? 1) * (style.alpha ?? 1);
  pen.fillStyle = style.hatch ?? style.fill;
  if (style.hatch) style.hatch.setTransform(new DOMMatrix().scale(pixel));
  // Shells and holes have opposite orientation, so overlapping areas are filled as one.
  pen.fill(made.areas, "nonzero");
  pen.globalAlpha = style.alpha ?? 1;
  pen.setLineDash((style.dash ?? []).map((part) => part * pixel));
  if (style.casing) {
    pen.strokeStyle = "#ffffffd9";
    pen.lineWidth = width + 2.5 * pixel;
    pen.stroke(made.lines);
  }
  pen.strokeStyle = style.edge;
  pen.lineWidth = (made.key === GREY ? 0.8 : made.key === REFERENCE ? 2.5 : 1.8) * pixel;
  pen.stroke(made.areas);
  pen.stroke(made.outlines);
  pen.strokeStyle = style.line;
  pen.lineWidth = width;
  pen.stroke(made.lines);
  pen.setLineDash([]);
}

// Areas that are too small to see at this zoom are marked like points.
const SPECK_PIXELS = 5;
function marks({ points, specks }) {
  const small = specks.filter(({ box }) => Math.max(box[2] - box[0], box[3] - box[1]) * view.zoom < SPECK_PIXELS);
  return points.concat(small.flatMap(({ box }) => [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2]));
}

function drawPoints(made) {
  const { style, key } = made;
  const points = marks(made);
  const grow = Math.min(Math.max(Math.sqrt(view.zoom / 0.6), key === GREY ? 0.4 : 0.7), 1.5);
  const radius = style.radius * grow;
  pen.globalAlpha = style.alpha ?? 1;
  pen.fillStyle = style.dot;
  pen.strokeStyle = "#fff";
  pen.lineWidth = key === GREY ? 0 : 1.6;
  pen.beginPath();
  for (let i = 0; i < points.length; i += 2) {
    const [x, y] = toScreen(points[i], points[i + 1]);
    if (x < -radius || y < -radius || x > view.width + radius || y > view.height + radius) continue;
    pen.moveTo(x + radius, y);
    pen.arc(x, y, radius, 0, 2 * Math.PI);
  }
  if (key !== GREY) pen.stroke();
  pen.fill();
}

function drawAll() {
  const { ratio, zoom } = view;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, view.width, view.height);
  pen.lineJoin = pen.lineCap = "round";
  for (const made of layers) {
    if (!made.shown) continue;
    const [x, y] = toScreen(0, 0);
    pen.setTransform(ratio * zoom, 0, 0, -ratio * zoom, ratio * x, ratio * y);
    drawPaths(made);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawPoints(made);
  }
  pen.globalAlpha = 1;
}
