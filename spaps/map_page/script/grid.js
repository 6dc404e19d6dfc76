// A grid of cells over the world: finds the entities in a window. The cells hold ranks, which say
// in which order entities are drawn: large areas, small areas, lines, points.

const WIDEST_IN_CELLS = 64, MOST_COLUMNS = 512, ENTITIES_IN_CELL = 3;
const grid = { columns: 1, cell: 1, first: null, ranks: null, wide: [], seen: null, stamp: 0 };
let byRank = null;
let hasPoints = false;
let everything = [0, 0, 1, 1], span = 1;

function orderByRank() {
  const keys = new Float64Array(count);
  for (let entity = 0; entity < count; entity++) {
    const kind = column.kinds[entity];
    // Areas by size in steps of a factor of 1.4, so that many of a colour come after each other.
    const size = kind === AREA ? 100 - Math.min(Math.max(Math.round(2 * Math.log2(sizeOf(entity) + 1)), 0), 100) : 0;
    const order = ((AREA - kind) * 128 + size) * 256 + colourOf(entity);
    keys[entity] = order * 2 ** 32 + entity;
  }
  keys.sort();
  byRank = new Uint32Array(count);
  for (let rank = 0; rank < count; rank++) byRank[rank] = keys[rank] % 2 ** 32;
}

function cellsOf(entity) {
  const { cell, columns } = grid, { box } = shapes, at = 4 * entity;
  const place = (value, start) => Math.min(Math.max(Math.floor((value - start) / cell), 0), columns - 1);
  return [
    place(box[at], everything[0]), place(box[at + 1], everything[1]),
    place(box[at + 2], everything[0]), place(box[at + 3], everything[1]),
  ];
}

function buildGrid() {
  everything = count ? joinedBox(column.kinds.keys()) : [0, 0, 1, 1];
  span = Math.max(everything[2] - everything[0], everything[3] - everything[1], 1);
  grid.columns = Math.min(Math.max(Math.ceil(Math.sqrt(count / ENTITIES_IN_CELL)), 1), MOST_COLUMNS);
  grid.cell = span / grid.columns;
  hasPoints = column.kinds.includes(POINT);
  grid.seen = new Uint32Array(count);
  orderByRank();
  const sizes = new Uint32Array(grid.columns ** 2);
  const eachCell = (entity, work) => {
    const [west, south, east, north] = cellsOf(entity);
    if ((east - west + 1) * (north - south + 1) > WIDEST_IN_CELLS) return false;
    for (let row = south; row <= north; row++) {
      for (let at = west; at <= east; at++) work(row * grid.columns + at);
    }
    return true;
  };
  for (let rank = 0; rank < count; rank++) {
    // An entity of many cells would cost more than all others together.
    if (!eachCell(byRank[rank], (cell) => { sizes[cell]++; })) grid.wide.push(rank);
  }
  grid.first = runningSums(sizes);
  grid.ranks = new Uint32Array(grid.first.at(-1));
  const next = grid.first.slice();
  for (let rank = 0; rank < count; rank++) eachCell(byRank[rank], (cell) => { grid.ranks[next[cell]++] = rank; });
}

// Returns the ranks of the entities whose boxes meet the window, ascending.
function ranksIn(west, south, east, north) {
  const { cell, columns, first, ranks, seen } = grid, { box } = shapes;
  const place = (value, start) => Math.min(Math.max(Math.floor((value - start) / cell), 0), columns - 1);
  const stamp = ++grid.stamp, found = [];
  const take = (rank) => {
    const entity = byRank[rank], at = 4 * entity;
    if (seen[entity] === stamp) return;
    seen[entity] = stamp;
    if (box[at] <= east && box[at + 2] >= west && box[at + 1] <= north && box[at + 3] >= south) found.push(rank);
  };
  for (const rank of grid.wide) take(rank);
  const toColumn = place(east, everything[0]), toRow = place(north, everything[1]);
  for (let row = place(south, everything[1]); row <= toRow; row++) {
    for (let at = place(west, everything[0]); at <= toColumn; at++) {
      const index = row * columns + at;
      for (let i = first[index]; i < first[index + 1]; i++) take(ranks[i]);
    }
  }
  return Uint32Array.from(found).sort();
}
