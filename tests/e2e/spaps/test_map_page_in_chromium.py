"""The page of a neighborhood in a real browser without a network: a hand points, clicks, zooms."""

from __future__ import annotations

from pathlib import Path

import pytest

from spaps.cli.command_line import run
from tests.scenes.map_hand import (
    COMPLETE,
    PANEL,
    Open,
    drawn,
    link_when,
    map_pixels,
    metres,
    press_button,
    search_for,
    seen,
    text_of,
)
from tests.scenes.map_page import EVIL, page_and_world

QUARTER = 4000000005986438
NEIGHBORHOOD = f"({{{QUARTER}}},{{road/major/#}},C) • (Prev,{{road/major/#}},T)"
STAGE_1_BLUE, STAGE_2_ORANGE = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)


@pytest.fixture(scope="module")
def neighborhood_page(monaco_world: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("pages") / "monaco.html"
    assert run(["resolve", "--world", monaco_world, "--map", str(page), NEIGHBORHOOD]) == 0
    return page


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


def test_a_place_is_drawn_and_can_be_used_as_a_reference(
    open_page: Open, monaco_world: str, tmp_path: Path
) -> None:
    path = tmp_path / "place.html"
    place = "at:POLYGON((7.42 43.735,7.43 43.735,7.43 43.74,7.42 43.735))"
    command = ["resolve", "--world", monaco_world, "--map", str(path)]
    assert run([*command, f"({{{place}}},{{shop/#}},CV)"]) == 0
    page = open_page(path)
    assert drawn(page) == 9_537 + 1
    search_for(page, "polygon")
    page.press("Enter")
    picked = text_of(page, "#picked")
    assert picked.count(place) == 2  # as title, and in the place of a peid
    assert "reference" in picked
    press_button(page, "#picked button.main")
    assert page.evaluate("document.getElementById('neighborhood').value").startswith(
        f"({{{place}}},"
    )
