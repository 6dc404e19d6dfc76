"""Commands in this process on the sample world; a headless Chromium without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spaps.cli.command_line import run
from testing.chromium import Page, running_chromium
from tests.scenes.command_output import CommandOutput, Inside
from tests.scenes.map_hand import COMPLETE, Open


@pytest.fixture
def inside(
    monaco_world: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Inside:
    """Run a command in this process, in an empty folder, on the sample world."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPAPS_WORLD_DIR", monaco_world)
    monkeypatch.setenv("COLUMNS", "120")

    def command(*arguments: str) -> CommandOutput:
        capsys.readouterr()
        return CommandOutput(run(arguments), *capsys.readouterr())

    return command


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
