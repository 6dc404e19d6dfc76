"""Names of a world on a terminal: no control character of theirs gets there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import shapely

from spaps.cli.command_line import run
from tests.scenes.source_files import feature, write_geojson

EVIL = "\x1b]0;owned\x07\x1b[31mred\x9b2J\r\n\u202egpj.exe"
POINT = shapely.Point(13.4, 52.5)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    features = [
        feature(POINT, peid=1, categories=["a"], name=EVIL),
        feature(POINT, peid=2, categories=["a", f"b{EVIL}"]),
        feature(POINT, peid=EVIL, categories=["a"]),
    ]
    write_geojson(tmp_path / "evil\x1b[2J.geojson", features)
    return tmp_path


def is_harmless(text: str) -> bool:
    return not set(text) & set("\x1b\x07\x9b\r\u202e")


def test_what_commands_print_is_harmless(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    descriptor = json.dumps(
        {"name": f"n{EVIL}", "refs": [1], "stages": [{"cats": ["#"], "cond": "DW10"}]}
    )
    (folder / "s.jsonl").write_text(json.dumps({"subId": 1, "descriptor": EVIL}))
    world = ["--world", "w"]
    commands: list[tuple[int, list[str]]] = [
        (0, ["import", "evil\x1b[2J.geojson", *world]),
        (0, ["resolve", "({1},{#},DW10)", *world, "--map", "m\x1b.html"]),
        (0, ["resolve", "({1},{#},DW10)", *world, "--json"]),
        (0, ["resolve", descriptor, *world]),
        (0, ["check", descriptor]),
        (2, ["resolve", *world, "--subscriptions", "s.jsonl", "--out", "o\x1b"]),
        (2, ["import", "no\x1b[2J.geojson", *world]),
        (2, ["resolve", "({1},{#},DW10)", "--world", "w\x1b[2J"]),
        (2, ["resolve", f"({{1}},{{#}},{EVIL})", *world]),
    ]
    for expected, arguments in commands:
        code = run(arguments)
        captured = capsys.readouterr()
        said = captured.out + captured.err
        assert code == expected, said
        assert said
        assert is_harmless(said), said
    assert run(["resolve", "({1},{#},DW10)", *world]) == 0
    assert r"\x1b]0;owned\x07\x1b[31mred" in "".join(capsys.readouterr().out.split())


def test_the_check_itself_sees_what_it_should() -> None:
    assert not is_harmless("\x1b[31mred")
    assert is_harmless(r"\x1b[31mred")
