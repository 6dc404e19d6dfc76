// Unpacks the world. Python packs it into columns of numbers, compressed and as base64
// (packed_world.py). Entities are numbers here: places in the columns.

const world = JSON.parse(document.getElementById("world").textContent);
const POINT = 0, LINE = 1, AREA = 2;
const TYPES = { u1: Uint8Array, u4: Uint32Array, i4: Int32Array, u8: BigUint64Array };
const column = {};
// Paths are points, lines and rings. Coordinates are metres from the south-west corner.
const shapes = { x: null, y: null, firstVertex: null, firstPath: null, box: null };
let count = 0;
// The numbers of stages by entity; 0 is a reference. Entities of no stage are not there.
const stagesOf = new Map();

async function unpackColumns() {
  const text = atob(document.getElementById("columns").textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const unpacking = new DecompressionStream("deflate");
  const writer = unpacking.writable.getWriter();
  writer.write(packed);
  writer.close();
  const bytes = await new Response(unpacking.readable).arrayBuffer();
  for (const [name, type, offset, length] of world.columns) {
    column[name] = type === "json"
      ? JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, offset, length)))
      : new TYPES[type](bytes, offset, length);
  }
  count = column.kinds.length;
}

function runningSums(lengths) {
  const sums = new Uint32Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; i++) sums[i + 1] = sums[i] + lengths[i];
  return sums;
}

// Coordinates are stored as steps from one vertex to the next.
function metres(steps) {
  const places = new Float64Array(steps.length);
  for (let i = 0, at = 0; i < steps.length; i++) places[i] = (at += steps[i]) / world.perMetre;
  return places;
}

function unpackShapes() {
  shapes.x = metres(column.xSteps);
  shapes.y = metres(column.ySteps);
  shapes.firstPath = runningSums(column.paths);
  shapes.firstVertex = runningSums(column.vertices);
  shapes.box = new Float64Array(4 * count);
  const { x, y, box } = shapes;
  for (let entity = 0; entity < count; entity++) {
    let west = Infinity, south = Infinity, east = -Infinity, north = -Infinity;
    const end = shapes.firstVertex[shapes.firstPath[entity + 1]];
    for (let i = shapes.firstVertex[shapes.firstPath[entity]]; i < end; i++) {
      if (x[i] < west) west = x[i];
      if (x[i] > east) east = x[i];
      if (y[i] < south) south = y[i];
      if (y[i] > north) north = y[i];
    }
    box.set([west, south, east, north], 4 * entity);
  }
}

function unpackStages() {
  let at = 0;
  world.stageSizes.forEach((size, number) => {
    for (const end = at + size; at < end; at++) {
      const entity = column.stageMembers[at];
      if (stagesOf.has(entity)) stagesOf.get(entity).push(number);
      else stagesOf.set(entity, [number]);
    }
  });
}

const MOST_PEID = 2n ** 63n - 1n;
const nameOf = (entity) => column.names[column.nameCodes[entity]];
const keyOf = (entity) => (column.keys ? column.keys[entity] : null);
// A place that is a reference has no peid: its name is what a neighborhood says instead.
const peidOf = (entity) => (column.peids[entity] > MOST_PEID ? nameOf(entity) : String(column.peids[entity]));
const setOf = (entity) => column.categorySets[entity];
const categoriesOf = (entity) => world.categorySets[setOf(entity)].map((code) => world.categories[code]);
const titleOf = (entity) => nameOf(entity) || categoriesOf(entity)[0] || peidOf(entity);
const sizeOf = (entity) => {
  const { box } = shapes, at = 4 * entity;
  return Math.max(box[at + 2] - box[at], box[at + 3] - box[at + 1]);
};

function joinedBox(entities) {
  const joined = [Infinity, Infinity, -Infinity, -Infinity];
  for (const entity of entities) {
    const at = 4 * entity;
    joined[0] = Math.min(joined[0], shapes.box[at]);
    joined[1] = Math.min(joined[1], shapes.box[at + 1]);
    joined[2] = Math.max(joined[2], shapes.box[at + 2]);
    joined[3] = Math.max(joined[3], shapes.box[at + 3]);
  }
  return joined;
}

const middleOf = (entity) => {
  const { box } = shapes, at = 4 * entity;
  return [(box[at] + box[at + 2]) / 2, (box[at + 1] + box[at + 3]) / 2];
};
