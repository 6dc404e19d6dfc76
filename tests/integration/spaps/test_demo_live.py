"""The demonstration's broker part: what it shows is what the resolver predicts."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from schemas.settings import Settings, load_settings
from spaps.demo import live_broker
from spaps.demo.live_broker import DemoMismatchError, LiveMessage, Subscriber, run_live
from spaps.demo.sample_neighborhoods import import_sample


@pytest.fixture(scope="module")
def settings(repository: Path, monaco_world: str) -> Settings:
    options = {
        "world.dir": monaco_world,
        "demo.sources": [str(repository / "data" / "monaco.osm.pbf")],
        "demo.subscriptions": str(repository / "data" / "sample_subscriptions.jsonl"),
    }
    return load_settings(options=options, environment={})


def test_who_got_what_and_why(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_broker, "PAUSE_SECONDS", 0.0)
    paper = io.StringIO()
    console = Console(file=paper, width=200)
    run_live(settings, import_sample(settings, console), console)
    shown = paper.getvalue()
    for reason in (
        "nsid 1, stage 1",
        "nsid 2, stage 2",
        "nsid 1, stage 5",
        "of nsid 1 is not visible",
        "filtered: outside",
        "filtered: names no entity",
        "every message was delivered as the exact resolver predicts",
    ):
        assert reason in shown


def test_a_delivery_that_is_not_due_is_an_error() -> None:
    everything = Subscriber("C", {})
    message = LiveMessage("no entity", None)
    with pytest.raises(DemoMismatchError, match="nsids None, expected"):
        live_broker._check([message], [everything])
    everything.received[0] = ()
    live_broker._check([message], [everything])
