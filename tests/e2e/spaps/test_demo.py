"""The parts of ``make demo``: what they print and write, the first time and the second."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from schemas.settings import Settings, load_settings
from spaps.cli.neighborhood_input import read_subscriptions
from spaps.demo.sample_neighborhoods import import_sample, resolve_sample


@pytest.fixture(scope="module")
def settings(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("demo")
    options = {
        "world.dir": str(folder / "world"),
        "demo.sources": [str(repository / "data" / "monaco.osm.pbf")],
        "demo.subscriptions": str(repository / "data" / "sample_subscriptions.jsonl"),
        "demo.out": str(folder / "out"),
    }
    return load_settings(options=options, environment={})


def shown(settings: Settings) -> str:
    paper = io.StringIO()
    console = Console(file=paper, width=200)
    resolve_sample(settings, import_sample(settings, console), console)
    return paper.getvalue()


@pytest.fixture(scope="module")
def first(settings: Settings) -> str:
    """What the first run shows."""
    return shown(settings)


def test_everything_is_shown_and_a_second_run_imports_nothing(
    settings: Settings, first: str
) -> None:
    assert "imported in" in first
    samples, _ = read_subscriptions(settings.demo.subscriptions)
    for sample in samples:
        assert str(sample.neighborhood.name) in first
    assert "lie inside Monte-Carlo" in first
    assert re.search(r"5: 11\b", first), "members of stage 5 of the second sample"
    assert "(127)" in first
    assert "warning: stage 1: always empty" in first
    assert (settings.demo.out / "index.html").resolve().as_uri() in first
    assert "nothing has changed since the last import" in shown(settings)


@pytest.mark.usefixtures("first")
def test_the_index_leads_to_a_page_for_each_sample(settings: Settings) -> None:
    index = (settings.demo.out / "index.html").read_text("utf-8")
    pages = re.findall(r'href="([^"]+)"', index)
    samples, _ = read_subscriptions(settings.demo.subscriptions)
    assert len(pages) == len(samples)
    for page in pages:
        assert "<canvas" in (settings.demo.out / page).read_text("utf-8")
