// The panel beside the map: the search field, what is selected, and a neighborhood to copy.

const byId = (id) => document.getElementById(id);
const element = (tag, text, className) => {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (className) made.className = className;
  return made;
};
// Text from data is set as text, never as markup.
const button = (text, className, work) => {
  const made = element("button", text, className);
  made.type = "button";
  made.addEventListener("click", work);
  return made;
};
const counted = (number) => number.toLocaleString("en");
const entitiesCounted = (number) => (number === 1 ? "1 entity" : `${counted(number)} entities`);
const LISTED = 100;
const references = new Set();
// What the last search found and is marked on the map.
const search = { text: "", offered: [], active: -1 };

async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A page from a disk may not use the clipboard: copy as an old browser does.
    const area = element("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    from.focus();
  }
  byId("status").textContent = `Copied: ${text}`;
  from.dataset.copied = text;
  setTimeout(() => { delete from.dataset.copied; }, 1200);
}

const copyButton = (text, label) => {
  const made = button("Copy", "small", () => copy(typeof text === "string" ? text : text(), made));
  made.setAttribute("aria-label", label);
  return made;
};

function whereOf(entity) {
  const stages = stagesOf.get(entity) ?? [];
  if (!stages.length) return isStaged() ? "not in the neighborhood" : "";
  return stages.map((number) => (number ? `stage ${number}` : "reference")).join(", ");
}

function describe(entity) {
  const lines = [element("strong", titleOf(entity)), element("div", `peid ${peidOf(entity)}`)];
  if (keyOf(entity)) lines.push(element("div", `key ${keyOf(entity)}`));
  lines.push(element("div", categoriesOf(entity).join(", ")));
  if (whereOf(entity)) lines.push(element("div", whereOf(entity)));
  return lines;
}

function factRow(label, value, copied) {
  const row = element("div", "", "fact");
  row.append(element("dt", label), element("dd", value));
  if (copied) row.append(copyButton(value, `Copy the ${label}`));
  return row;
}

function entityCard(entity) {
  const facts = element("dl");
  // The name of a place is what stands for it in a neighborhood, which the next row has.
  if (nameOf(entity) && nameOf(entity) !== peidOf(entity)) facts.append(factRow("name", nameOf(entity), true));
  facts.append(factRow("peid", peidOf(entity), true));
  if (keyOf(entity)) facts.append(factRow("key", keyOf(entity), true));
  facts.append(factRow("categories", categoriesOf(entity).join("\n")));
  if (whereOf(entity)) facts.append(factRow("here", whereOf(entity)));
  const use = button("Use as reference", "main", () => { references.add(entity); showNeighborhood(); byId("neighborhood").focus(); });
  return [element("h2", titleOf(entity)), facts, use];
}

function entityList(entities) {
  const list = element("ul", "", "entities");
  for (const entity of entities.slice(0, LISTED)) {
    const row = element("li"), choose = button(titleOf(entity), "", () => { select([entity]); show([entity]); });
    choose.append(element("small", `${categoriesOf(entity)[0]} · ${peidOf(entity)}`));
    row.append(choose);
    list.append(row);
  }
  if (entities.length > LISTED) list.append(element("li", `and ${counted(entities.length - LISTED)} more`, "more"));
  return list;
}

// Selects entities: one is shown in full, several as a list.
function select(entities, heading) {
  overlay.selected = entities;
  const panel = byId("picked");
  panel.hidden = !entities.length;
  if (entities.length === 1) panel.replaceChildren(...entityCard(entities[0]));
  else if (entities.length) {
    const all = button("Use all as references", "main", () => { entities.forEach((one) => references.add(one)); showNeighborhood(); });
    const few = entities.length <= LISTED ? [all] : [];
    panel.replaceChildren(element("h2", heading ?? titleOf(entities[0])), element("p", entitiesCounted(entities.length)), ...few, entityList(entities));
  }
  const close = button("×", "close", () => { select([]); clearHits(); });
  close.setAttribute("aria-label", "Close");
  panel.prepend(close);
  keepLink();
  redraw();
}

function neighborhoodText() {
  const refs = [...references].map(peidOf).join(",");
  return `({${refs}},{${byId("pattern").value}},${byId("relation").value})`;
}

function showNeighborhood() {
  byId("builder").hidden = !references.size;
  byId("neighborhood").value = neighborhoodText();
  byId("references").replaceChildren(...[...references].map((entity) => {
    const row = element("li", titleOf(entity));
    const remove = button("×", "small", () => { references.delete(entity); showNeighborhood(); });
    remove.setAttribute("aria-label", `Remove ${titleOf(entity)}`);
    row.append(remove);
    return row;
  }));
}

function clearHits() {
  if (!shown.hits) return;
  shown.hits = null;
  showAnew();
}

// Marks entities on the map, and shows all of them.
function mark(entities, heading) {
  const many = entities.length > 1;
  shown.hits = many ? new Set(entities) : null;
  select(entities, heading);
  show(entities);
  showAnew();
}

function offer() {
  const box = byId("search"), list = byId("suggestions");
  search.text = box.value;
  const result = find(box.value);
  search.offered = suggestions(result);
  search.active = -1;
  list.replaceChildren(...search.offered.map(({ title, detail, entities }, place) => {
    const row = element("li", title);
    row.id = `suggestion-${place}`;
    row.setAttribute("role", "option");
    row.append(element("small", entities.length > 1 ? `${detail} · ${counted(entities.length)}` : detail));
    row.addEventListener("pointerdown", (event) => { event.preventDefault(); accept(place); });
    return row;
  }));
  const total = result.entities.length;
  if (fold(box.value)) list.append(Object.assign(element("li", total ? `${entitiesCounted(total)} found · Enter shows all` : "Nothing found", "total"), { role: "presentation" }));
  list.hidden = !fold(box.value);
  box.setAttribute("aria-expanded", String(!list.hidden));
  box.removeAttribute("aria-activedescendant");
  byId("status").textContent = list.hidden ? "" : `${entitiesCounted(total)} found`;
}

function activate(place) {
  const rows = byId("suggestions").querySelectorAll("[role=option]");
  search.active = Math.min(Math.max(place, -1), rows.length - 1);
  rows.forEach((row, at) => row.setAttribute("aria-selected", String(at === search.active)));
  if (search.active < 0) byId("search").removeAttribute("aria-activedescendant");
  else byId("search").setAttribute("aria-activedescendant", `suggestion-${search.active}`);
}

function closeSuggestions() {
  byId("suggestions").hidden = true;
  byId("search").setAttribute("aria-expanded", "false");
}

function accept(place) {
  const { title, entities } = search.offered[place];
  byId("search").value = search.text = title;
  closeSuggestions();
  mark(entities, title);
}

function acceptAll() {
  const { entities } = find(byId("search").value);
  closeSuggestions();
  if (entities.length) mark(entities, `“${byId("search").value.trim()}”`);
}
