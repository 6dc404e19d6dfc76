"""A headless Chromium without a network, and a page in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testing.chromium import Page, running_chromium
from tests.scenes.map_hand import COMPLETE, Open


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
