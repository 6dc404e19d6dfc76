"""Files that commands write: whole or as before, with the path and the reason when it fails."""

from __future__ import annotations

import io
import json
import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import shapely

from schemas.errors import OutputError
from spaps.cli.command_line import run
from spaps.cli.output import output_file, write_text
from tests.scenes.source_files import feature, write_geojson
from world.imports.world_import import import_world

ALL = "({1},{#},DW100000)"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("world")
    features = [
        feature(shapely.Point(13.4 + n / 1000, 52.5), peid=n, categories=["a"], name=f"n{n}")
        for n in range(50)
    ]
    import_world([write_geojson(folder / "s.geojson", features)], folder / "world")
    return str(folder / "world")


@contextmanager
def full_disk(largest: int = 100) -> Iterator[None]:
    """No file may grow beyond some bytes: writing fails as it does when a disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that must fail, and return its last line."""
    assert run([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr().err
    assert captured.count("spaps: ") == 1
    return captured.splitlines()[-1]


def subscriptions(folder: Path, *refs: int) -> Path:
    path = folder / "s.jsonl"
    stages = [{"cats": ["#"], "cond": "DW100000"}]
    lines = [
        json.dumps({"subId": number, "descriptor": {"refs": [ref], "stages": stages}})
        for number, ref in enumerate(refs)
    ]
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("option", ["--map", "--geojson", "--out"])
def test_a_full_disk_names_the_file_and_leaves_what_was_there(
    option: str, is_there: bool, world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out" / "file"
    out.parent.mkdir()
    if is_there:
        out.write_text("before")
    usual = ["resolve", "--world", world, option, out]
    usual += ["--subscriptions", subscriptions(tmp_path, 1)] if option == "--out" else [ALL]
    with full_disk():
        told = said(capsys, *usual)
    assert told == f"spaps: {out}: File too large; it was not written"
    assert [path.name for path in out.parent.iterdir()] == (["file"] if is_there else [])
    assert not is_there or out.read_text() == "before"
    assert run([*map(str, usual)]) == 0
    assert out.stat().st_size > 100


@pytest.mark.parametrize("option", ["--map", "--geojson", "--out"])
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("folder", "is a folder, not a file"),
        ("s.jsonl/below", "a part of its path is a file, not a folder"),
        ("/proc/no/such", "No such file or directory"),
    ],
)
def test_a_place_that_takes_no_file(
    option: str, place: str, reason: str, world: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    lines = subscriptions(tmp_path, 1)
    (tmp_path / "folder").mkdir()
    usual = ["resolve", "--world", world, option, tmp_path / place]
    usual += ["--subscriptions", lines] if option == "--out" else [ALL]
    assert f"{tmp_path / place}: {reason}" in said(capsys, *usual)
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "s.jsonl"}
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_full_disk_leaves_the_password_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "passwords"
    monkeypatch.setattr("sys.stdin", io.StringIO("one\n"))
    assert run(["passwd", str(file), "ann"]) == 0
    before = file.read_bytes()
    monkeypatch.setattr("sys.stdin", io.StringIO("two\n"))
    with full_disk(len(before)):
        told = said(capsys, "passwd", file, "ben")
    assert told == f"spaps: {file}: File too large; it was not written"
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("room", [0, 10, 400])
def test_an_import_onto_a_full_disk_names_the_place(
    room: int, world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Path(world).parent / "s.geojson"
    with full_disk(room):
        told = said(capsys, "import", source, "--world", tmp_path / "world")
    assert "spaps: " in told
    assert str(tmp_path / "world") in told
    assert "File too large" in told
    assert run(["import", str(source), "--world", str(tmp_path / "world")]) == 0


def test_a_full_disk_during_an_import_loses_no_version(
    world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Path(world).parent / "s.geojson"
    import_world([source], tmp_path / "world")
    with full_disk(300):
        told = said(capsys, "import", source, "--force", "--world", tmp_path / "world")
    assert told.startswith(f"spaps: world {tmp_path / 'world'}")
    assert told.endswith(": File too large")  # without what the libraries write around it
    assert "rror" not in told
    assert run(["resolve", ALL, "--world", str(tmp_path / "world"), "--version", "1"]) == 0
    assert run(["import", str(source), "--force", "--world", str(tmp_path / "world")]) == 0
    assert "version 2" in capsys.readouterr().out


def test_nothing_resolved_is_a_failure_and_writes_no_file(
    world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.parquet"
    usual = ["resolve", "--world", world, "--out", out, "--subscriptions"]
    told = said(capsys, *usual, subscriptions(tmp_path, 998, 999))
    assert "none of the 2 subscriptions could be resolved on world version 1" in told
    assert "such as subId 0: no reference exists in world version 1: 998" in told
    assert not out.exists()
    (tmp_path / "empty.jsonl").write_text("\n")
    assert "there is no subscription in it" in said(capsys, *usual, tmp_path / "empty.jsonl")
    assert not out.exists()
    assert run([*map(str, usual), str(subscriptions(tmp_path, 998, 1))]) == 0
    assert set(pq.read_table(out).column("subId").to_pylist()) == {1}


def test_an_error_of_the_work_is_not_called_one_of_the_file(tmp_path: Path) -> None:
    def work() -> None:
        with output_file(tmp_path / "file") as draft:
            draft.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert list(tmp_path.iterdir()) == []
    write_text(tmp_path / "new" / "file", "whole")
    assert (tmp_path / "new" / "file").read_text() == "whole"
    with pytest.raises(OutputError, match="is a folder"):
        write_text(tmp_path / "new", "x")


def test_links_are_followed_and_pipes_are_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(tmp_path / "link", "content")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "content"
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit((tmp_path / "pipe").read_text)
        write_text(tmp_path / "pipe", "through")
        assert reading.result(60) == "through"
    assert (tmp_path / "pipe").is_fifo()
