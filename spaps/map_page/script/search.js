// Finds entities by text, by the rules of ``spaps find`` (world/search).

const SUGGESTIONS = 8;
const LEVELS = { IDENTIFIER: 0, NAME: 1, NAME_START: 2, WORD_START: 3, INSIDE: 4, KEY: 5, CATEGORY: 6, NONE: 255 };
// Of each distinct name its place when short names come first; those without a name come last.
const folded = { names: null, nameOrder: null, keys: null, categories: null };

// Letters that Unicode does not take apart into a plain letter and an accent.
const PLAIN_LETTERS = { ł: "l", ø: "o", đ: "d", ð: "d", ħ: "h", ŧ: "t", ı: "i", æ: "ae", œ: "oe", þ: "th" };

// Small letters without accents, the words joined by one space each (world/search/searched_world.py).
function fold(text) {
  const plain = /^[\x20-\x7e]*$/.test(text)
    ? text.toLowerCase()
    // Large letters first: they write out what small ones hide, such as the sharp s.
    : text.normalize("NFKD").toUpperCase().toLowerCase().replaceAll("ς", "σ").normalize("NFKD").replace(/\p{Mn}+/gu, "")
      .replace(/[łøđðħŧıæœþ]/gu, (letter) => PLAIN_LETTERS[letter]);
  return plain.replace(/[\p{P}\p{Z}\p{C}]+/gu, " ").trim();
}

function foldAll() {
  if (folded.names) return;
  folded.names = column.names.map((name) => (name === null ? "" : fold(name)));
  const { names } = folded, lengthOf = (name) => name.length || Infinity;
  folded.nameOrder = new Uint32Array(names.length);
  const codes = Uint32Array.from(names.keys())
    .sort((a, b) => (lengthOf(names[a]) - lengthOf(names[b])) || (names[a] < names[b] ? -1 : names[a] > names[b] ? 1 : 0));
  codes.forEach((code, place) => {
    const before = codes[place - 1];
    folded.nameOrder[code] = place && names[before] === names[code] ? folded.nameOrder[before] : place;
  });
  folded.keys = column.keys ? column.keys.map((key) => (key === null ? "" : fold(key))) : null;
  folded.categories = world.categories.map((category) => [fold(category), ...category.split("/").map(fold)]);
}

function nameLevel(name, text, words) {
  if (name === text) return LEVELS.NAME;
  for (const word of words) if (!name.includes(word)) return LEVELS.NONE;
  if (name.startsWith(text)) return LEVELS.NAME_START;
  return words.every((word) => name.startsWith(word) || name.includes(` ${word}`)) ? LEVELS.WORD_START : LEVELS.INSIDE;
}

// Returns the entities that match, the best first, with the level of each.
function find(typed) {
  const text = fold(typed), words = text.split(" "), trimmed = typed.trim();
  if (!text) return { entities: [], levels: new Uint8Array(0) };
  foldAll();
  const ofName = folded.names.map((name) => (name ? nameLevel(name, text, words) : LEVELS.NONE));
  const ofCategory = folded.categories.map(([whole, ...parts]) => whole === text || parts.some((part) => part.startsWith(text)));
  const ofSet = world.categorySets.map((codes) => codes.some((code) => ofCategory[code]));
  const peid = /^\d{1,19}$/.test(trimmed) ? BigInt(trimmed) : -1n;
  const levels = new Uint8Array(count), order = new Float64Array(count);
  let size = 0;
  for (let entity = 0; entity < count; entity++) {
    let level = ofName[column.nameCodes[entity]];
    if (level === LEVELS.NONE && folded.keys?.[entity].includes(text)) level = LEVELS.KEY;
    if (level === LEVELS.NONE && ofSet[setOf(entity)]) level = LEVELS.CATEGORY;
    if ((peid >= 0n && column.peids[entity] === peid) || (column.keys && column.keys[entity] === trimmed)) level = LEVELS.IDENTIFIER;
    levels[entity] = level;
    // By level, then short names first, then by the place, which is the order of peids.
    if (level !== LEVELS.NONE) order[size++] = (level * folded.names.length + folded.nameOrder[column.nameCodes[entity]]) * count + entity;
  }
  const entities = Uint32Array.from(order.subarray(0, size).sort(), (one) => one % count);
  return { entities: [...entities], levels };
}

// Entities of one name are one suggestion: a street has many segments.
function suggestions({ entities, levels }) {
  const groups = new Map();
  for (const entity of entities) {
    const byCategory = levels[entity] >= LEVELS.KEY || !nameOf(entity);
    const top = categoriesOf(entity)[0];
    const key = levels[entity] === LEVELS.IDENTIFIER || levels[entity] === LEVELS.KEY ? `e${entity}`
      : byCategory ? `c${top}` : `n${column.nameCodes[entity]} ${top.split("/")[0]}`;
    const group = groups.get(key);
    if (group) group.entities.push(entity);
    else if (groups.size < SUGGESTIONS) groups.set(key, { title: byCategory && levels[entity] === LEVELS.CATEGORY ? top : titleOf(entity), detail: top, entities: [entity] });
  }
  return [...groups.values()];
}
