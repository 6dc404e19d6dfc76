"""Frames per second of the map page of a city: ``python -m bench.map_page`` (make bench-map).

A headless Chromium without a graphics card draws the page. A mouse drags the map at four scales
while the page counts its frames. The result goes to out/map-page.md.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

from spaps.map_page.page import PageTexts, world_page
from system_packages import find_program
from testing.chromium import Page, running_chromium
from testing.processor import cpu_name
from testing.synthetic_city import synthetic_city

OUT = Path("out")
WIDTH, HEIGHT = 1280, 760
# Pixels for each metre: the whole city, a part of it, a quarter, a few streets.
ZOOMS = (0.05, 0.2, 0.6, 2.0)
COMPLETE = "document.documentElement.dataset.complete === 'true'"
# The page writes its view into the address a moment after it has drawn it.
HAS_VIEW = "location.hash.includes('view=')"
READY = "document.documentElement.dataset.ready === 'yes'"
COUNT_FRAMES = """
window.frameTimes = [];
window.counting = true;
(function count(now) {
  frameTimes.push(now);
  if (counting) requestAnimationFrame(count);
})(performance.now());
"""


@dataclass(frozen=True)
class Panning:
    """The times between frames while the map was dragged, in milliseconds."""

    zoom: float
    milliseconds: list[float]

    def row(self) -> str:
        """Return a row of the table."""
        rate = 1000 * len(self.milliseconds) / sum(self.milliseconds)
        slow = quantiles(self.milliseconds, n=100)[98]
        middle = median(self.milliseconds)
        return f"| {self.zoom} | {rate:.0f} | {middle:.1f} ms | {slow:.1f} ms |"


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--entities", type=int, default=225_150)
    parser.add_argument("--seconds", type=float, default=6.0, help="of dragging at each scale")
    options = parser.parse_args()
    program = find_program("chromium")
    if program is None:
        print("this benchmark needs chromium")
        return 2
    load_average = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="spaps-map-") as folder:
        path = Path(folder) / "city.html"
        started = time.perf_counter()
        path.write_text(world_page(synthetic_city(options.entities), PageTexts("City")), "utf-8")
        written = time.perf_counter() - started
        with running_chromium(program, Path(folder) / "profile") as page:
            page.resize(WIDTH, HEIGHT)
            started = time.perf_counter()
            page.open(path.as_uri())
            page.wait(READY)
            ready = time.perf_counter() - started
            page.wait(COMPLETE)
            complete = time.perf_counter() - started
            page.wait(HAS_VIEW)
            pannings = [panning(page, zoom, options.seconds) for zoom in ZOOMS]
            search = searching(page)
        size = path.stat().st_size / 1e6
    lines = [
        (
            f"`python -m bench.map_page --entities {options.entities}` on {cpu_name()}, "
            f"{os.cpu_count()} cores, load {load_average:.1f}, drawn without a graphics card"
        ),
        "",
        (
            f"A page of {size:.1f} MB, drawn and written in {written:.1f} s. It can be used after "
            f"{ready:.1f} s, the first picture is complete after {complete:.1f} s. A letter typed "
            f"into the search shows its suggestions after {search:.0f} ms."
        ),
        "",
        "| pixels for a metre | frames a second | median frame | 99 of 100 frames below |",
        "|--:|--:|--:|--:|",
        *(one.row() for one in pannings),
    ]
    text = "\n".join(lines) + "\n"
    OUT.mkdir(exist_ok=True)
    (OUT / "map-page.md").write_text(text, "utf-8")
    print(text)
    return 0


def panning(page: Page, zoom: float, seconds: float) -> Panning:
    """Drag the map in curves and return the times of its frames."""
    page.wait("location.hash.includes('view=')")
    x, y = (page.evaluate("location.hash.match(/view=([^&]*)/)[1]").split("%2C"))[:2]
    page.evaluate(f"location.hash = 'view={x},{y},{zoom}'")
    time.sleep(0.5)
    page.wait(COMPLETE)
    middle_x, middle_y = 800.0, 380.0
    page.mouse("mousePressed", middle_x, middle_y, button="left", clickCount=1)
    page.evaluate(COUNT_FRAMES)
    start = time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        # A wide swing: up to 1,500 pixels a second, and always into parts that are not drawn yet.
        at_x = middle_x + 300 * math.sin(4 * passed) + 60 * passed
        at_y = middle_y + 250 * math.sin(2.3 * passed)
        page.mouse("mouseMoved", at_x, at_y, button="left", buttons=1)
        time.sleep(0.006)
    times = page.evaluate("counting = false, frameTimes")
    page.mouse("mouseReleased", middle_x, middle_y, button="left", clickCount=1)
    return Panning(zoom, [later - earlier for earlier, later in pairwise(times)])


def searching(page: Page) -> float:
    """Return the median milliseconds of a search, the first of them left out."""
    script = """(() => {
      const box = document.getElementById('search'), times = [];
      for (const text of ['s', 'st', 'str', 'street 12', 'pharm', 'shop 9', '77']) {
        const start = performance.now();
        box.value = text;
        box.dispatchEvent(new Event('input'));
        times.push(performance.now() - start);
      }
      return times;
    })()"""
    return float(median(page.evaluate(script)[1:]))


if __name__ == "__main__":
    raise SystemExit(main())
