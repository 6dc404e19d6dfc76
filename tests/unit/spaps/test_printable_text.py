"""Names and messages of other people on a terminal: no control character gets through."""

from __future__ import annotations

import io
import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapely import Point

from spaps.cli.command_line import run, sentence
from spaps.cli.commands.top_command import Reading, top_table
from spaps.cli.message_printer import MessagePrinter
from spaps.cli.output import plain_table, printable, printable_bytes, printable_json, results
from spaps.client.message import Message
from tests.scenes.source_files import feature, write_geojson

CLEAR_SCREEN = "\x1b[2J\x9b2J"
UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def unsafe_in(text: str) -> set[str]:
    return {
        one for one in text if unicodedata.category(one) in UNSAFE and one not in "\u200c\u200d"
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Boulevard Princesse Charlotte", "Boulevard Princesse Charlotte"),
        ("Straße 東京 🚲", "Straße 東京 🚲"),
        ("joined\u200cletters", "joined\u200cletters"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x7f\x9b\u202e\u2028\ud800", r"\x7f\x9b\u202e\u2028\ud800"),
    ],
)
def test_controls_are_written_out_and_letters_stay(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(alphabet=st.characters()))
def test_nothing_unsafe_is_left(text: str) -> None:
    assert not unsafe_in(printable(text))
    assert not unsafe_in(printable_json({"name": text}))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_json_keeps_its_meaning(text: str) -> None:
    assert json.loads(printable_json([text, {"x": text}])) == [text, {"x": text}]


def test_lines_of_a_text_stay_lines() -> None:
    assert printable_bytes(b"one\n\ttwo\x1b[0m\xff") == rb"one" + b"\n\t" + rb"two\x1b[0m\xff"


class Screen(io.TextIOWrapper):
    """Standard output, as a terminal or as a pipe."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def shown_by_sub(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, as_json: bool) -> bytes:
    screen = Screen(is_terminal=is_terminal)
    monkeypatch.setattr("sys.stdout", screen)
    message = Message(
        topic=f"a/{CLEAR_SCREEN}", payload=f"x\n{CLEAR_SCREEN}".encode(), qos=0, retain=False,
        peid=None, nsids=(), user_properties=(("k", CLEAR_SCREEN),), properties=None,
    )  # fmt: skip
    MessagePrinter(as_json=as_json, with_topic=True, line_ends=True, retained=True).show(message)
    written = screen.buffer.getvalue()  # type: ignore[attr-defined]
    assert isinstance(written, bytes)
    return written


def test_sub_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for as_json in (False, True):
        written = shown_by_sub(monkeypatch, is_terminal=True, as_json=as_json).decode()
        assert unsafe_in(written) == {"\n"}, as_json


def test_sub_into_a_pipe_gives_the_payload_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    written = shown_by_sub(monkeypatch, is_terminal=False, as_json=False)
    assert written == rb"a/\x1b[2J\x9b2J x" + f"\n{CLEAR_SCREEN}\n".encode()


def test_causes_of_a_foreign_metrics_page_in_top() -> None:
    now = Reading(1.0, {f'spaps_drops_total{{cause="{CLEAR_SCREEN}[red]x"}}': 3.0})
    cells = [str(cell) for cell in top_table(now, None).columns[0].cells]
    assert not unsafe_in("".join(cells))
    assert r"\[red]" in cells[-1], "markup of the page is not obeyed either"


def test_one_line_for_an_error() -> None:
    assert not unsafe_in(sentence(OSError(2, f"{CLEAR_SCREEN}\n", CLEAR_SCREEN)))


def test_a_row_in_a_file_or_pipe_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "way/1230123520#2832828841574748222"
    table = plain_table()
    table.add_column("key")
    table.add_column("name")
    table.add_row(key, "Boulevard du Jardin Exotique " * 5)
    monkeypatch.delenv("COLUMNS", raising=False)
    results().print(table)
    assert sum(key in line for line in capsys.readouterr().out.splitlines()) == 1
    monkeypatch.setenv("COLUMNS", "40")
    results().print(table)
    assert max(map(len, capsys.readouterr().out.splitlines())) == 40


def test_a_file_has_no_row_of_blanks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    town = write_geojson(tmp_path / "t.geojson", [feature(Point(13.4, 52.5), peid=1)])
    options = ["--dry-run", "--world", str(tmp_path / "w"), "--category", "stop"]
    assert run(["import", str(town), *options]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) < 300
