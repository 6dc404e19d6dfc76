// The link of the page keeps what is seen: the view, the search, the selection, and what is hidden.

const MOST_SELECTED = 20;
let kept = "";
let keeping = 0;

function linkText() {
  const parts = new URLSearchParams();
  const [west, south] = world.origin;
  parts.set("view", [view.x + west, view.y + south].map((value) => value.toFixed(1)).join(",") + `,${Number(view.zoom.toPrecision(5))}`);
  if (overlay.selected.length && overlay.selected.length <= MOST_SELECTED) parts.set("selected", overlay.selected.map(peidOf).join(","));
  if (search.text && shown.hits) parts.set("search", search.text);
  const hidden = [...hiddenCodes].map((code) => world.categories[code]);
  const visible = world.categories.filter((_, code) => !hiddenCodes.has(code));
  if (hidden.length && hidden.length <= visible.length) parts.set("without", hidden.join(","));
  else if (hidden.length) parts.set("only", visible.join(","));
  const off = [0, ...world.stages.map((stage) => stage.number)].filter((number) => isStaged() && !shown.stages.has(number));
  if (off.length) parts.set("stagesOff", off.join(","));
  if (!shown.others) parts.set("others", "off");
  return `#${parts}`;
}

// Changes of a moving map are gathered, because browsers limit how often a link may change.
function keepLink() {
  clearTimeout(keeping);
  keeping = setTimeout(() => {
    kept = linkText();
    location.replace(kept);
  }, 250);
}

const listed = (text) => (text ? text.split(",") : []);

// Brings back what a link keeps; returns whether it has a view.
function readLink() {
  kept = location.hash;
  const parts = new URLSearchParams(location.hash.slice(1));
  hiddenCodes.clear();
  const only = parts.has("only") ? new Set(listed(parts.get("only"))) : null;
  const without = new Set(listed(parts.get("without")));
  world.categories.forEach((category, code) => { if (only ? !only.has(category) : without.has(category)) hiddenCodes.add(code); });
  const off = new Set(listed(parts.get("stagesOff")).map(Number));
  shown.stages = new Set([0, ...world.stages.map((stage) => stage.number)].filter((number) => !off.has(number)));
  shown.others = parts.get("others") !== "off";
  if (parts.get("search")) {
    byId("search").value = search.text = parts.get("search");
    const { entities } = find(search.text);
    if (entities.length > 1) { shown.hits = new Set(entities); select(entities, `“${search.text}”`); }
  }
  const peids = new Set(listed(parts.get("selected")).filter((text) => /^\d{1,19}$/.test(text)));
  if (peids.size) select([...column.peids.keys()].filter((entity) => peids.has(peidOf(entity))));
  const [x, y, zoom] = listed(parts.get("view")).map(Number);
  if (![x, y, zoom].every(Number.isFinite) || zoom <= 0) return false;
  Object.assign(view, { x: x - world.origin[0], y: y - world.origin[1], zoom: limitedZoom(zoom) });
  return true;
}
