"""Log lines: one line each whatever stands in them, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from broker.shell.operations.logs import JsonLines, TextLines, set_up_logs
from schemas.errors import SettingsError


def record(message: str, **fields: object) -> logging.LogRecord:
    made = logging.getLogger("broker.x").makeRecord(
        "broker.x", logging.WARNING, "file.py", 1, message, (), None, extra=fields
    )
    made.created = 1_700_000_000.5
    return made


def test_text_shows_time_level_message_and_fields() -> None:
    line = TextLines().format(record("refused", client="c1", reason=135))
    assert line == "2023-11-14T22:13:20.500+00:00 WARNING refused client='c1' reason=135"


@pytest.mark.parametrize("evil", ["a\nb", "a\r\nWARNING b", "\x1b[2J", "\u2028"])
def test_nothing_in_a_field_or_message_makes_another_line(evil: str) -> None:
    for lines in (TextLines(), JsonLines()):
        text = lines.format(record(f"message {evil}", client=evil))
        assert text.isprintable()
    assert json.loads(JsonLines().format(record("m", client=evil)))["client"] == evil


def test_json_has_every_field_and_the_exception() -> None:
    made = record("failed", client="c1", size=3)
    try:
        1 / 0  # noqa: B018 - to have an exception
    except ZeroDivisionError:
        made.exc_info = sys.exc_info()
    content = json.loads(JsonLines().format(made))
    assert "ZeroDivisionError" in content.pop("exception")
    assert content == {
        "time": 1_700_000_000.5, "level": "warning", "logger": "broker.x",
        "message": "failed", "client": "c1", "size": 3,
    }  # fmt: skip


@pytest.mark.parametrize(("form", "level"), [("xml", "info"), ("text", "loud")])
def test_unknown_format_or_level(form: str, level: str) -> None:
    with pytest.raises(SettingsError, match=r"broker\.log_(format|level) must be"):
        set_up_logs(form, level)


@pytest.mark.parametrize("long", ["x" * 60_000, "\U0001f600" * 60_000, "\x1b" * 60_000])
def test_long_texts_of_clients_are_cut_off(long: str) -> None:
    for lines in (TextLines(), JsonLines()):
        line = lines.format(record(f"client refused: {long}", client=long, user=None, size=3))
        assert len(line) < 1_500
        assert "(60000 characters)" in line.replace("\\u2026", "…")
    assert "…" not in TextLines().format(record("m", client="x" * 200))
