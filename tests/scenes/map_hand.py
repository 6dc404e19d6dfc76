"""What a hand and an eye do with a map page in a browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from testing.chromium import Page

# The width of the panel beside the map, in pixels.
PANEL: Final = 360
COMPLETE: Final = "document.documentElement.dataset.complete === 'true'"
Open: TypeAlias = Callable[..., Page]


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
    # Imported late: every process of the tests loads this module.
    import matplotlib.image  # noqa: PLC0415

    page.screenshot(path)
    return np.rint(matplotlib.image.imread(path)[:, PANEL:, :3] * 255)


def seen(pixels: Any, colour: tuple[int, int, int]) -> int:
    return int((np.abs(pixels - colour).max(axis=2) <= 12).sum())


def metres(scale: str) -> float:
    number, unit = scale.split()
    return float(number) * (1000 if unit == "km" else 1)
