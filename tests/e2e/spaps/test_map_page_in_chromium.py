"""The map page in a real browser that has no network: it draws, and its legend says what."""

from __future__ import annotations

import html
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from spaps.cli.command_line import run
from tests.scenes.map_page import EVIL, page_and_world

QUARTER = 4000000005986438
# What a hand does: points at the middle of the map, clicks, hides a stage, zooms in.
HAND = """
<script>
HTMLCanvasElement.prototype.setPointerCapture = () => {};  // wants a real pointer
window.requestAnimationFrame = (work) => setTimeout(work, 16);  // no frames in virtual time
const at = (element, name) => {
  const box = element.getBoundingClientRect();
  const place = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 };
  element.dispatchEvent(new PointerEvent(name, { pointerId: 1, bubbles: true, ...place }));
};
setTimeout(() => {
  const map = document.getElementById("map"), told = document.documentElement.dataset;
  at(map, "pointermove");
  told.tip = document.getElementById("tip").textContent;
  at(map, "pointerdown");
  at(map, "pointerup");
  told.picked = document.getElementById("picked").textContent;
  document.querySelectorAll("#legend input")[2].click();
  told.without = told.drawn;
  told.before = document.querySelector("#scale span").textContent;
  document.querySelector("[data-does=in]").click();
  document.querySelector("[data-does=in]").click();
  setTimeout(() => { told.after = document.querySelector("#scale span").textContent; }, 500);
}, 300);
</script>
"""
NEIGHBORHOOD = f"({{{QUARTER}}},{{road/major/#}},C) • (Prev,{{road/major/#}},T)"
STAGE_1_BLUE, STAGE_2_ORANGE = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)


@pytest.fixture
def browse(program: Callable[[str], Path], tmp_path: Path) -> Callable[..., str]:
    """``browse(page, option…)`` runs Chromium without a network and gives what it prints."""
    chromium = program("chromium")

    def open_page(page: Path, *options: str) -> str:
        command = [
            str(chromium),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=1200,800",
            "--virtual-time-budget=3000",
            *options,
            page.as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=180)
        return done.stdout

    return open_page


@pytest.fixture(scope="module")
def monaco_page(monaco_world: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("pages") / "monaco.html"
    assert run(["resolve", "--world", monaco_world, "--map", str(page), NEIGHBORHOOD]) == 0
    return page


def test_the_whole_world_is_drawn_and_the_legend_tells_the_stages(
    browse: Callable[..., str], monaco_page: Path
) -> None:
    dom = browse(monaco_page, "--dump-dom")
    drawn = re.search(r'data-drawn="(\d+)"', dom)
    assert drawn is not None
    assert int(drawn.group(1)) > 9_000
    text = html.unescape(re.sub(r"<[^>]*>", " ", dom[dom.index('id="legend"') :]))
    for expected in ("References", "Monte-Carlo", "Stage 1", "Stage 2", "Other entities"):
        assert expected in text
    assert "© OpenStreetMap contributors" in dom


def test_both_stages_are_seen_in_their_colours(
    browse: Callable[..., str], monaco_page: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "picture.png"
    browse(monaco_page, f"--screenshot={picture}")
    # The map is right of the panel, whose legend has the same colours.
    pixels = np.rint(matplotlib.image.imread(picture)[:, 360:, :3] * 255)
    for colour in (STAGE_1_BLUE, STAGE_2_ORANGE):
        seen = np.abs(pixels - colour).max(axis=2) <= 12
        assert seen.sum() > 200, f"{colour} is not on the map"


def test_pointing_clicking_hiding_and_zooming(browse: Callable[..., str], tmp_path: Path) -> None:
    page = page_and_world()[0]
    # The page's policy would refuse the hand, as it refuses every script but its own.
    free = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    path = tmp_path / "hand.html"
    path.write_text(free.replace("</head>", f"{HAND}</head>"), "utf-8")
    dom = browse(path, "--dump-dom")
    told = dict(re.findall(r'data-(\w+)="([^"]*)"', dom[: dom.index(">", 30)]))
    assert told["tip"] == "Zonepeid 7zonereference"
    assert told["picked"] == told["tip"]
    assert (told["without"], told["drawn"]) == ("3", "3")
    assert metres(told["after"]) < metres(told["before"])


def metres(scale: str) -> float:
    number, unit = scale.split()
    return float(number) * (1000 if unit == "km" else 1)


def test_text_from_data_stays_text(browse: Callable[..., str], tmp_path: Path) -> None:
    page = tmp_path / "evil.html"
    page.write_text(page_and_world(title=EVIL)[0], "utf-8")
    dom = browse(page, "--dump-dom")
    assert re.search(r'data-drawn="4"', dom)
    assert "<title>pwned" not in dom
    heading = re.search(r"<h1>(.*?)</h1>", dom)
    assert heading is not None
    assert html.unescape(heading.group(1)) == EVIL
