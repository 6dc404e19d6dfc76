"""Worlds that are damaged or may not be read: one line says what is wrong, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import shapely
from deltalake import DeltaTable

from schemas.errors import WorldError
from spaps.cli.command_line import run
from tests.scenes.source_files import feature, write_geojson
from world.imports.world_import import import_world
from world.snapshot import load_snapshot
from world.versions.store import WorldStore

ONE = "({1},{#},D)"
NOBODY = 65534


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    points = [shapely.Point(13.4 + n / 100, 52.5) for n in range(3)]
    features = [feature(point, peid=n, categories=["a"]) for n, point in enumerate(points)]
    source = write_geojson(folder / "source.geojson", features)
    import_world([source], folder / "world")
    return folder / "world"


@pytest.fixture
def world(good: Path) -> Iterator[Path]:
    """A copy in a folder that everybody may enter."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        yield Path(shutil.copytree(good, folder / "world"))


def entries(world: Path, table: str) -> list[Path]:
    return sorted((world / table / "_delta_log").glob("*.json"))


def each_file(change: Callable[[Path], object]) -> Callable[[Path, str], None]:
    def damage(world: Path, table: str) -> None:
        for file in (world / table).rglob("part-*.parquet"):
            change(file)

    return damage


def entry(number: int, content: bytes) -> Callable[[Path, str], None]:
    return lambda world, table: [entries(world, table)[number].write_bytes(content), None][1]


def damage_checkpoint(world: Path, table: str) -> None:
    DeltaTable(str(world / table)).create_checkpoint()
    for file in (world / table / "_delta_log").glob("*.checkpoint.parquet"):
        file.write_bytes(b"PAR1 and no more")


LOG = "its log (_delta_log) is damaged"
DAMAGES: dict[str, tuple[Callable[[Path, str], object], str]] = {
    "garbage": (entry(-1, b"garbage"), LOG),
    "cut off": (entry(-1, b'{"add": {"path": "part-0'), LOG),
    "no text": (entry(0, b"\xff\xfe\x00"), LOG),
    "no metadata": (entry(0, b"{}"), LOG),
    "checkpoint": (damage_checkpoint, LOG),
    "entry gone": (lambda world, table: entries(world, table)[0].unlink(), LOG),
    "file gone": (each_file(Path.unlink), ".parquet is missing"),
    "file cut off": (each_file(lambda file: file.write_bytes(b"PAR1")), "parquet is damaged"),
}


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that must fail, and return the one line that it said."""
    assert run([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("spaps: ")
    assert captured.err.count("\n") == 1
    for word in ("\x1b", "<unknown>", "pthread", "Traceback", "Kernel", "unexpected error"):
        assert word not in captured.err
    return captured.err


@pytest.mark.parametrize("table", ["versions", "entities"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_one_line(
    damage: str, table: str, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    do, expected = DAMAGES[damage]
    do(world, table)
    told = said(capsys, "resolve", ONE, "--world", world)
    assert f"table {table}: " in told
    assert expected in told
    # What the broker and its resolver process read a world by.
    with pytest.raises(WorldError, match=r"^[^\n]*$"):
        load_snapshot(str(world))


@pytest.mark.parametrize("table", ["versions", "entities", "problems"])
@pytest.mark.parametrize("damage", ["garbage", "cut off", "checkpoint", "entry gone"])
def test_an_import_into_it_is_refused_too(
    damage: str, table: str, world: Path, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    DAMAGES[damage][0](world, table)
    source = good.parent / "source.geojson"
    assert LOG in said(capsys, "import", source, "--force", "--world", world)


@pytest.mark.parametrize("table", ["versions", "entities"])
@pytest.mark.parametrize("damage", ["empty entry", "no log"])
def test_a_version_is_not_taken_for_nothing_and_written_over(
    damage: str, table: str, world: Path, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor are its files removed as if a killed import had left them."""
    if damage == "no log":
        shutil.rmtree(world / table / "_delta_log")
    else:
        entries(world, table)[-1].write_bytes(b"")
    before = {path: path.stat().st_mtime_ns for path in world.rglob("*.parquet")}
    told = said(capsys, "resolve", ONE, "--world", world)
    assert "no world" not in told
    assert "restore the folder" in told or "should have 3 entities" in told
    said(capsys, "import", good.parent / "source.geojson", "--force", "--world", world)
    assert {path: path.stat().st_mtime_ns for path in world.rglob("*.parquet")} == before


@contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    """Without the rights of root, for whom every folder is readable."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("where", ["", "versions", "versions/_delta_log", "entities", "inner"])
def test_a_folder_that_may_not_be_read_is_not_called_absent(
    where: str, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["resolve", ONE, "--world", str(world)]) == 0  # and everything is imported
    capsys.readouterr()
    closed = world if where == "inner" else world / where
    closed.chmod(0)
    try:
        with as_an_ordinary_user():
            asked = world / "inner" if where == "inner" else world
            told = said(capsys, "resolve", ONE, "--world", asked)
    finally:
        closed.chmod(0o755)
    assert "permission denied" in told.lower()
    assert str(world) in told


def test_a_source_folder_that_may_not_be_read_is_not_called_empty(
    world: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = world.parent / "parts"
    closed.mkdir()
    closed.chmod(0)
    # An ordinary user may not be able to read the clone.
    rules = shutil.copyfile(repository / "conf" / "categories.toml", world.parent / "rules.toml")
    try:
        with as_an_ordinary_user():
            told = said(capsys, "import", closed, "--world", world, "--rules", rules)
    finally:
        closed.chmod(0o755)
    assert f"{closed}: Permission denied" in told
    assert f"{closed}: a folder without a .parquet file" in said(
        capsys, "import", closed, "--world", world
    )


def test_a_file_in_place_of_a_world(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = world.parent / "file.geojson"
    write_geojson(file, [feature(shapely.Point(1, 1), peid=1, categories=["a"])])
    for command in (["resolve", ONE], ["import", file]):
        assert f"{file}: is a file, not a folder" in said(capsys, *command, "--world", file)


def test_a_world_that_is_not_there_yet(tmp_path: Path) -> None:
    assert WorldStore(str(tmp_path / "none")).versions() == []
    (tmp_path / "begun" / "versions").mkdir(parents=True)
    assert WorldStore(str(tmp_path / "begun")).versions() == []
    assert list((tmp_path / "begun" / "versions").iterdir()) == []
