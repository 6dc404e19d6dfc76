"""The page of ``spaps map`` in a real browser: search, filter, copy, links and keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schemas.language.notation import read_neighborhood
from spaps.cli.command_line import run
from testing.chromium import Page
from tests.scenes.map_hand import (
    COMPLETE,
    Open,
    drawn,
    link_when,
    map_pixels,
    metres,
    press_button,
    search_for,
    text_of,
)
from world.search.entity_search import EntityQuery, find_entities
from world.search.searched_world import SearchedWorld, fold

QUARTER = 4000000005986438


@pytest.fixture(scope="module")
def world_map(monaco_world: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("pages") / "world.html"
    assert run(["map", "--world", monaco_world, "--out", str(page), "--title", "Monaco"]) == 0
    return page


@pytest.fixture(scope="module")
def monaco(monaco_world: str) -> SearchedWorld:
    return SearchedWorld.open(monaco_world)


@pytest.mark.parametrize(
    "text",
    ["monte carlo", "MONTÉ", "hermit", "road", "rue de la", "bus 2", "4000000005986438", "xyzzy"],
)
def test_the_page_finds_what_the_command_finds(
    open_page: Open, world_map: Path, monaco: SearchedWorld, text: str
) -> None:
    page = open_page(world_map)
    search_for(page, text)
    expected = find_entities(monaco, EntityQuery(text, limit=0))
    lines = text_of(page, "#suggestions").split("\n")
    if not expected.count:
        assert lines == ["Nothing found"]
        return
    number = "1 entity" if expected.count == 1 else f"{expected.count:,} entities"
    assert lines[-1].startswith(f"{number} found")
    first = expected.entities[0]
    assert lines[0] in (first.name, first.categories[0])


def test_the_page_folds_text_as_the_command_does(browser: Page, repository: Path) -> None:
    texts = ["Straße", "ΟΔΟΣ Ερμού", "L’Été", "İzmir", "ﬁlm ①", "Łódź\n\tA", "C++ / #2", "日本 橋"]  # noqa: RUF001
    script = (repository / "spaps" / "map_page" / "script" / "search.js").read_text("utf-8")
    given = json.dumps(texts)
    told = browser.evaluate(f"(() => {{ {script}; return {given}.map(fold); }})()")
    assert told == [fold(text) for text in texts]


def test_a_found_entity_becomes_a_reference_of_a_neighborhood_to_copy(
    open_page: Open, world_map: Path
) -> None:
    page = open_page(world_map)
    search_for(page, "monte carlo")
    rows = page.evaluate(
        "[...document.querySelectorAll('#suggestions small')].map((e) => e.innerText)"
    )
    for _ in range(rows.index("zone/admin/10") + 1):
        page.press("ArrowDown")
    assert page.evaluate("document.getElementById('search').getAttribute('aria-activedescendant')")
    page.press("Enter")
    card = text_of(page, "#picked")
    assert "Monte-Carlo" in card
    assert str(QUARTER) in card
    for label, value in (("name", "Monte-Carlo"), ("key", "relation/5986438"), ("peid", QUARTER)):
        press_button(page, f'#picked [aria-label="Copy the {label}"]')
        page.wait(f"document.getElementById('status').textContent === 'Copied: {value}'")
    press_button(page, "#picked > .main")
    text = page.evaluate("document.getElementById('neighborhood').value")
    assert read_neighborhood(text).refs == (QUARTER,)
    page.evaluate(
        "for (const [id, value] of [['pattern', 'road/#'], ['relation', 'T']]) {"
        "const box = document.getElementById(id); box.value = value;"
        "box.dispatchEvent(new Event('change')); }"
    )
    assert page.evaluate("document.getElementById('neighborhood').value") == (
        f"({{{QUARTER}}},{{road/#}},T)"
    )


def test_categories_filter_what_is_drawn_and_can_be_found_on_the_map(
    open_page: Open, world_map: Path, monaco: SearchedWorld
) -> None:
    page = open_page(world_map)
    everything = drawn(page)
    assert everything == len(monaco)
    press_button(page, '[aria-label="Show only road"]')
    roads = int(monaco.categories.mask(monaco.categories.matched("road/#")).sum())
    assert drawn(page) == roads
    press_button(page, "#all")
    assert drawn(page) == everything
    press_button(page, "#none")
    assert drawn(page) == 0


def test_a_link_keeps_view_selection_and_filter(open_page: Open, world_map: Path) -> None:
    page = open_page(world_map)
    search_for(page, str(QUARTER))
    page.press("Enter")
    press_button(page, '[aria-label="Show only road"]')
    link = link_when(page, "only=")
    assert f"selected={QUARTER}" in link
    before = drawn(page), text_of(page, "#scale span"), text_of(page, "#picked")
    other = open_page(world_map, link)
    assert (drawn(other), text_of(other, "#scale span"), text_of(other, "#picked")) == before
    # Negative control: without the link the page begins with the whole world.
    plain = open_page(world_map)
    assert drawn(plain) != before[0]
    assert plain.evaluate("document.getElementById('picked').hidden")


@pytest.mark.parametrize(
    "link", ["#view=a,b,c", "#view=1,2", "#selected=x,99", "#only=nothing", "#%%%"]
)
def test_a_broken_link_shows_a_page(open_page: Open, world_map: Path, link: str) -> None:
    assert text_of(open_page(world_map, link), "h1") == "Monaco"


def test_the_keyboard_moves_zooms_and_selects(open_page: Open, world_map: Path) -> None:
    page = open_page(world_map, f"#selected={QUARTER}")
    page.evaluate("document.getElementById('map').focus()")
    before = text_of(page, "#scale span")
    page.press("+")
    page.press("+")
    # The page is painted in the next frame, which a busy browser may draw late.
    page.wait(f"document.querySelector('#scale span').innerText !== {json.dumps(before)}")
    assert metres(text_of(page, "#scale span")) < metres(before)
    page.press("Escape")
    assert page.evaluate("document.getElementById('picked').hidden")
    page.press("Enter")
    assert not page.evaluate("document.getElementById('picked').hidden")
    page.press("/")
    assert page.evaluate("document.activeElement.id") == "search"


def test_a_dark_page_has_a_dark_map(open_page: Open, world_map: Path, tmp_path: Path) -> None:
    page = open_page(world_map)
    light = map_pixels(page, tmp_path / "light.png").mean()
    page.prefer("dark")
    page.wait("getComputedStyle(document.body).backgroundColor !== 'rgb(255, 255, 255)'")
    page.evaluate("new Promise((done) => setTimeout(done, 50))")
    page.wait(COMPLETE)
    assert map_pixels(page, tmp_path / "dark.png").mean() < 100 < light
