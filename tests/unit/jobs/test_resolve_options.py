"""How jobs/resolve_neighborhoods.py reads ``--redis``: left out, bare, or with a URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from jobs import resolve_neighborhoods
from jobs.pipeline import bulk_job, session
from schemas.errors import SourceError
from schemas.settings import Settings


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ([], []),
        (["--redis"], [None]),
        (["--redis", "redis://elsewhere"], ["redis://elsewhere"]),
        (["--subscriptions", "redis"], [None]),
    ],
)
def test_which_redis_is_opened(
    arguments: list[str], asked: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """None stands for the embedded server."""
    opened: list[str | None] = []

    @contextmanager
    def server(settings: Settings) -> Iterator[str]:
        opened.append(settings.redis.url)
        yield settings.redis.url or "unix://embedded"

    def no_spark(_: str) -> Any:
        raise SourceError("far enough")

    monkeypatch.delenv("SPAPS_REDIS_URL", raising=False)
    monkeypatch.setattr(bulk_job, "redis_or_embedded", server)
    monkeypatch.setattr(session, "spark_session", no_spark)
    assert resolve_neighborhoods.main(["--world", "anywhere", *arguments]) == 2
    assert opened == asked
