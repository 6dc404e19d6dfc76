// Colours of categories and stages, for a light and a dark page.

// Hues of first levels that many worlds have; the others take the hues that are left, in turn.
const KNOWN = {
  road: [28, 12], building: [30, 30], water: [205, 75], nature: [135, 45], leisure: [95, 45], rail: [260, 18],
  zone: [285, 32], transport: [215, 70], traffic: [48, 85], shop: [330, 60], food: [16, 85], health: [0, 70],
  public: [182, 60], tourism: [262, 60], office: [232, 40], culture: [312, 50], education: [60, 60],
  emergency: [352, 80], place: [245, 45], craft: [40, 60], route: [195, 60], service: [170, 45],
};
const OTHER_HUES = [205, 28, 135, 330, 262, 60, 182, 0, 95, 312, 232, 48];
const darkPage = window.matchMedia("(prefers-color-scheme: dark)");
const isStaged = () => world.stages.length > 0;
// Of each set of categories: the place of its colour in ``tops``.
let tops = [], topOfSet = null;

function readColours() {
  const totals = new Map(), sizes = new Uint32Array(world.categorySets.length);
  for (let entity = 0; entity < count; entity++) sizes[setOf(entity)]++;
  const topsOf = world.categorySets.map((codes) => codes.map((code) => world.categories[code].split("/")[0]));
  topsOf.forEach((names, set) => {
    for (const name of new Set(names)) totals.set(name, (totals.get(name) ?? 0) + sizes[set]);
  });
  tops = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a) || (a < b ? -1 : 1));
  // At most 256 colours fit into the order of drawing.
  topOfSet = topsOf.map((names) => Math.min(tops.indexOf(names[0]), 255));
}

const colourOf = (entity) => topOfSet[setOf(entity)];

function hueOf(top) {
  const known = KNOWN[tops[top]];
  return known && Object.hasOwn(KNOWN, tops[top]) ? known : [OTHER_HUES[top % OTHER_HUES.length], 50];
}

function categoryColour(top) {
  const [hue, saturation] = hueOf(top);
  return darkPage.matches ? `hsl(${hue} ${saturation}% 66%)` : `hsl(${hue} ${saturation}% 40%)`;
}

// The colours that the style sheet has for this page.
const pageColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

let palette = null;
function readPalette() {
  palette = {
    ground: pageColour("ground"), ink: pageColour("ink"), paper: pageColour("paper"), accent: pageColour("accent"),
    grey: { line: pageColour("grey-line"), fill: pageColour("grey-fill"), dot: pageColour("grey-dot") },
    tops: tops.map((_, top) => categoryColour(top)),
    fillAlpha: darkPage.matches ? 0.2 : 0.16,
  };
}

// Of an entity that is in no stage. Beside stages the world is grey.
function baseStyle(top) {
  if (isStaged()) return { line: palette.grey.line, edge: palette.grey.line, fill: palette.grey.fill, dot: palette.grey.dot, fillAlpha: 1 };
  const colour = palette.tops[top];
  return { line: colour, edge: colour, fill: colour, dot: colour, fillAlpha: palette.fillAlpha };
}

const HIDDEN_DASH = [5, 4];
function stageStyle(number) {
  if (number === 0) return { line: palette.ink, dot: palette.ink, hatch: true, widths: [4, 6, 11], edge: 2.5, radius: 7 };
  const { colour, visible } = world.stages[number - 1];
  return {
    line: colour, dot: colour, fill: colour, fillAlpha: visible ? 0.28 : 0.1, alpha: visible ? 1 : 0.6,
    widths: [2.4, 4.5, 9], edge: 1.8, radius: visible ? 5 : 4, dash: visible ? null : HIDDEN_DASH,
  };
}
const hitStyle = () => ({ line: palette.accent, dot: palette.accent, fill: palette.accent, fillAlpha: 0.25, widths: [2.4, 4.5, 9], edge: 1.8, radius: 4.5 });
