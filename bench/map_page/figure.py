"""Writes docs/figures/map-page.png and map-world.png: ``python -m bench.map_page.figure``.

They show map pages of the sample world: a sample subscription, on a light page, and the whole
world after a search, on a dark one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from bench.map_page.__main__ import COMPLETE, READY
from spaps.cli.command_line import run
from system_packages import find_program
from testing.chromium import Page, running_chromium

FIGURES = Path("docs/figures")
WIDTH, HEIGHT = 1280, 760
HOPS = (
    '{"name": "traffic control of Monte-Carlo and three hops around it", '
    '"refs": [4000000005986438], '
    '"stages": [{"cats": ["road/major/#", "road/minor/#"], "cond": "C"}, '
    '{"refStages": "Prev", "cats": ["road/major/#", "road/minor/#"], "cond": "T", "repeat": 3}]}'
)


def main() -> int:
    """Write both pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--world", default="lake/world", help="the sample world, imported")
    world = parser.parse_args().world
    program = find_program("chromium")
    if program is None:
        print("this needs chromium")
        return 2
    with tempfile.TemporaryDirectory(prefix="spaps-figure-") as folder:
        hops, whole = Path(folder) / "hops.html", Path(folder) / "world.html"
        done = run(["resolve", "--world", world, "--map", str(hops), "--limit", "1", HOPS])
        done = done or run(["map", "--world", world, "--title", "Monaco", "--out", str(whole)])
        if done:
            return done
        with running_chromium(program, Path(folder) / "profile") as page:
            page.resize(WIDTH, HEIGHT)
            take(page, hops, FIGURES / "map-page.png", "light")
            take(page, whole, FIGURES / "map-world.png", "dark", search="casino")
    return 0


def take(page: Page, path: Path, picture: Path, scheme: str, search: str = "") -> None:
    """Open a page, search for a text, and write what it shows."""
    page.prefer(scheme)
    page.open(path.as_uri() + (f"#search={search}" if search else ""))
    page.wait(READY)
    # Labels are chosen when the picture rests.
    time.sleep(0.5)
    page.wait(COMPLETE)
    page.screenshot(picture)


if __name__ == "__main__":
    raise SystemExit(main())
