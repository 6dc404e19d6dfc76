// The legend: stages and references with their switches, and the tree of categories as a filter.

// A place in the category tree: what is below it, and the codes of its categories.
function categoryTree() {
  const root = { below: new Map(), codes: [] };
  world.categories.forEach((category, code) => {
    let node = root, path = "";
    for (const level of category.split("/")) {
      path = path ? `${path}/${level}` : level;
      if (!node.below.has(level)) node.below.set(level, { level, path, below: new Map(), codes: [], entities: 0, sets: new Set() });
      node = node.below.get(level);
      node.codes.push(code);
    }
  });
  return root;
}

const hiddenCodes = new Set();
let root = null;

// An entity is shown while one of its categories is.
function applyFilter() {
  shown.sets = Uint8Array.from(world.categorySets, (codes) => (codes.some((code) => !hiddenCodes.has(code)) ? 1 : 0));
  for (const [node, box] of boxes) {
    const off = node.codes.filter((code) => hiddenCodes.has(code)).length;
    box.checked = off < node.codes.length;
    box.indeterminate = off > 0 && off < node.codes.length;
  }
  tellDrawn();
}

function tellDrawn() {
  let drawn = 0;
  for (let entity = 0; entity < count; entity++) if (isShown(entity)) drawn++;
  document.documentElement.dataset.drawn = drawn;
}

const boxes = new Map();

function showCodes(codes, on) {
  for (const code of codes) if (on) hiddenCodes.delete(code); else hiddenCodes.add(code);
  applyFilter();
  keepLink();
  showAnew();
}

function countNodes(node) {
  const sizes = new Uint32Array(world.categorySets.length);
  for (let entity = 0; entity < count; entity++) sizes[setOf(entity)]++;
  const setsOfCode = world.categories.map(() => []);
  world.categorySets.forEach((codes, set) => codes.forEach((code) => setsOfCode[code].push(set)));
  const each = (place) => {
    const sets = new Set(place.codes.flatMap((code) => setsOfCode[code]));
    place.entities = [...sets].reduce((sum, set) => sum + sizes[set], 0);
    place.below.forEach(each);
  };
  node.below.forEach(each);
}

function categoryRow(node, depth) {
  const row = element("li"), line = element("div", "", "row"), label = element("label"), box = element("input");
  box.type = "checkbox";
  box.checked = true;
  box.addEventListener("change", () => showCodes(node.codes, box.checked));
  boxes.set(node, box);
  const swatch = element("i");
  if (!isStaged()) swatch.style.background = `var(--top-${Math.min(tops.indexOf(node.path.split("/")[0]), 255)})`;
  const name = element("span", node.level);
  label.append(box, ...(depth ? [] : [swatch]), name, element("b", counted(node.entities)));
  label.title = node.path;
  const only = button("only", "small", () => {
    world.categories.forEach((_, code) => hiddenCodes.add(code));
    showCodes(node.codes, true);
  });
  only.setAttribute("aria-label", `Show only ${node.path}`);
  if (node.below.size) {
    const list = element("ul");
    list.hidden = true;
    const opener = button("", "opener", () => {
      // The rows below are made when they are first looked at.
      if (!list.children.length) {
        list.append(...sortedBelow(node).map((one) => categoryRow(one, depth + 1)));
        applyFilter();
      }
      list.hidden = !list.hidden;
      opener.setAttribute("aria-expanded", String(!list.hidden));
    });
    opener.setAttribute("aria-expanded", "false");
    opener.setAttribute("aria-label", `Categories below ${node.path}`);
    line.append(opener, label, only);
    row.append(line, list);
  } else {
    line.append(element("span", "", "opener"), label, only);
    row.append(line);
  }
  return row;
}

const sortedBelow = (node) => [...node.below.values()].sort((a, b) => b.entities - a.entities || (a.level < b.level ? -1 : 1));

function fillCategories() {
  root = categoryTree();
  countNodes(root);
  byId("categories").append(...sortedBelow(root).map((node) => categoryRow(node, 0)));
  byId("all").addEventListener("click", () => showCodes(world.categories.keys(), true));
  byId("none").addEventListener("click", () => showCodes(world.categories.keys(), false));
  byId("filter").open = !isStaged();
  const patterns = ["#", ...sortedBelow(root).map((node) => `${node.path}/#`)];
  byId("pattern").append(...patterns.map((pattern) => element("option", pattern)));
}

function colourCategories() {
  tops.forEach((_, top) => document.documentElement.style.setProperty(`--top-${top}`, categoryColour(top)));
}

function stageRow({ number, label, entities, words, className, colour, isOn, change }) {
  const row = element("li", "", className), line = element("label"), box = element("input"), swatch = element("i", number);
  box.type = "checkbox";
  box.checked = isOn;
  box.addEventListener("change", () => { change(box.checked); tellDrawn(); keepLink(); showAnew(); });
  line.append(box, swatch, element("span", label), element("b", counted(entities)));
  if (words) line.append(element("small", words));
  if (colour) swatch.style[className === "hidden" ? "color" : "background"] = colour;
  row.append(line);
  return row;
}

function fillStages() {
  byId("legend").hidden = !isStaged();
  if (!isStaged()) return;
  const switchStage = (number) => (on) => { if (on) shown.stages.add(number); else shown.stages.delete(number); };
  const rows = [{ number: "", label: "References", entities: world.stageSizes[0], words: world.references, className: "reference", isOn: shown.stages.has(0), change: switchStage(0) }];
  for (const { number, visible, colour, words } of world.stages) {
    const label = visible ? `Stage ${number}` : `Stage ${number} (not in the result)`;
    rows.push({ number: String(number), label, entities: world.stageSizes[number], words, className: visible ? "" : "hidden", colour, isOn: shown.stages.has(number), change: switchStage(number) });
  }
  rows.push({ number: "", label: "Other entities", entities: count - stagesOf.size, className: "grey", isOn: shown.others, change: (on) => { shown.others = on; } });
  byId("legend").append(...rows.map(stageRow));
}
