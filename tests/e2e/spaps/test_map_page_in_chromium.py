"""The map page in a real browser without a network: a hand moves, searches, filters and copies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from schemas.language.notation import read_neighborhood
from spaps.cli.command_line import run
from testing.chromium import Page, running_chromium
from tests.scenes.map_page import EVIL, page_and_world
from world.search.entity_search import EntityQuery, find_entities
from world.search.folding import fold
from world.search.searched_world import SearchedWorld

QUARTER = 4000000005986438
NEIGHBORHOOD = f"({{{QUARTER}}},{{road/major/#}},C) • (Prev,{{road/major/#}},T)"
STAGE_1_BLUE, STAGE_2_ORANGE = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)
PANEL = 360
COMPLETE = "document.documentElement.dataset.complete === 'true'"
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser(
    program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Page]:
    """A page in a browser of 1200 by 800 pixels."""
    with running_chromium(program("chromium"), tmp_path_factory.mktemp("profile")) as page:
        page.resize(1200, 800)
        yield page


@pytest.fixture
def open_page(browser: Page) -> Open:
    """``open_page(path, link)`` opens a page and waits until it is drawn."""

    def opened(path: Path, link: str = "") -> Page:
        browser.complaints.clear()
        browser.prefer("light")
        # Another address first: to a page that is open already, a link is no new start.
        browser.open("about:blank")
        browser.open(path.as_uri() + link)
        browser.wait("document.documentElement.dataset.ready === 'yes'")
        browser.wait(COMPLETE)
        assert browser.complaints == []
        return browser

    return opened


@pytest.fixture(scope="module")
def neighborhood_page(monaco_world: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("pages") / "monaco.html"
    assert run(["resolve", "--world", monaco_world, "--map", str(page), NEIGHBORHOOD]) == 0
    return page


@pytest.fixture(scope="module")
def world_map(monaco_world: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("pages") / "world.html"
    assert run(["map", "--world", monaco_world, "--out", str(page), "--title", "Monaco"]) == 0
    return page


@pytest.fixture(scope="module")
def monaco(monaco_world: str) -> SearchedWorld:
    return SearchedWorld.open(monaco_world)


def text_of(page: Page, selector: str) -> str:
    text = page.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")
    assert isinstance(text, str)
    return text


def drawn(page: Page) -> int:
    return int(page.evaluate("document.documentElement.dataset.drawn"))


def press_button(page: Page, selector: str) -> None:
    page.evaluate(f"document.querySelector({json.dumps(selector)}).click()")


def search_for(page: Page, text: str) -> None:
    page.evaluate(
        "(() => { const box = document.getElementById('search'); box.value = ''; box.focus(); })()"
    )
    page.type(text)


def link_when(page: Page, part: str) -> str:
    """Return the link of the page, as soon as it has this part."""
    page.wait(f"location.hash.includes({json.dumps(part)})")
    link = page.evaluate("location.hash")
    assert isinstance(link, str)
    return link


def map_pixels(page: Page, path: Path) -> Any:
    page.screenshot(path)
    return np.rint(matplotlib.image.imread(path)[:, PANEL:, :3] * 255)


def seen(pixels: Any, colour: tuple[int, int, int]) -> int:
    return int((np.abs(pixels - colour).max(axis=2) <= 12).sum())


def test_a_neighborhood_is_drawn_with_its_world_and_a_legend(
    open_page: Open, neighborhood_page: Path
) -> None:
    page = open_page(neighborhood_page)
    assert drawn(page) == 9_537
    legend = text_of(page, "#legend")
    for expected in ("References", "Monte-Carlo", "Stage 1", "Stage 2", "Other entities"):
        assert expected in legend
    assert "© OpenStreetMap contributors" in text_of(page, "#attribution")


def test_stages_are_seen_in_their_colours_until_they_are_switched_off(
    open_page: Open, neighborhood_page: Path, tmp_path: Path
) -> None:
    page = open_page(neighborhood_page)
    pixels = map_pixels(page, tmp_path / "both.png")
    for colour in (STAGE_1_BLUE, STAGE_2_ORANGE):
        assert seen(pixels, colour) > 200, f"{colour} is not on the map"
    press_button(page, "#legend li:nth-child(3) input")
    link_when(page, "stagesOff=2")
    page.wait(COMPLETE)
    pixels = map_pixels(page, tmp_path / "one.png")
    assert seen(pixels, STAGE_1_BLUE) > 200
    assert seen(pixels, STAGE_2_ORANGE) < 20
    assert drawn(page) < 9_537


def test_pointing_clicking_and_zooming(open_page: Open, tmp_path: Path) -> None:
    path = tmp_path / "small.html"
    path.write_text(page_and_world()[0], "utf-8")
    page = open_page(path)
    # The middle of the zone, which its three neighbors leave free.
    x, y = page.evaluate(
        "(() => { const box = document.getElementById('map').getBoundingClientRect();"
        "return [box.left + box.width / 2 - 60, box.top + box.height / 2]; })()"
    )
    page.mouse("mouseMoved", x, y)
    assert text_of(page, "#tip").split("\n") == ["Zone", "peid 7", "zone", "reference"]
    page.click(x, y)
    picked = text_of(page, "#picked")
    assert "Zone" in picked
    assert "reference" in picked
    page.click(PANEL + 5, 5)  # where nothing is
    assert page.evaluate("document.getElementById('picked').hidden")
    before = metres(text_of(page, "#scale span"))
    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-300)
    page.wait(f"document.querySelector('#scale span').innerText !== '{before:g} m'")
    page.wait(COMPLETE)
    assert metres(text_of(page, "#scale span")) < before


def metres(scale: str) -> float:
    number, unit = scale.split()
    return float(number) * (1000 if unit == "km" else 1)


def test_text_from_data_stays_text(open_page: Open, tmp_path: Path) -> None:
    path = tmp_path / "evil.html"
    path.write_text(page_and_world(title=EVIL)[0], "utf-8")
    page = open_page(path)
    search_for(page, "script")
    assert EVIL in text_of(page, "#suggestions")
    page.press("Enter")
    assert text_of(page, "h1") == EVIL
    assert page.evaluate("document.title") == EVIL
    assert page.evaluate("document.querySelectorAll('img, #suggestions script').length") == 0
    assert page.complaints == []


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
    press_button(page, "#picked .fact button")
    page.wait(f"document.getElementById('status').textContent === 'Copied: {QUARTER}'")
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
    before = metres(text_of(page, "#scale span"))
    page.press("+")
    page.press("+")
    page.wait(COMPLETE)
    assert metres(text_of(page, "#scale span")) < before
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
