"""docs/mistakes.md: each wrong input gives the line and the exit code that stand there."""

from __future__ import annotations

import io
import json
import re
import shlex
from pathlib import Path

import pytest

from spaps.cli.command_line import run
from tests.scenes.source_files import feature, write_geojson

DOCS = Path(__file__).resolve().parents[3] / "docs"
ROW = re.compile(r"^\| `(spaps[^|]*)` \| `(spaps: .*)` \|$", re.MULTILINE)
MISTAKES = ROW.findall((DOCS / "mistakes.md").read_text("utf-8"))
HERE = re.compile(r"<< 'END_OF_FILE'\n(.*?)^END_OF_FILE\n", re.MULTILINE | re.DOTALL)


def town() -> str:
    """The first file of the tutorial."""
    found = HERE.search((DOCS / "tutorial.md").read_text("utf-8"))
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page, and the world."""
    folder = tmp_path_factory.mktemp("mistakes")

    def point(east: float, north: float) -> dict[str, object]:
        place = {"type": "Point", "coordinates": [east, north]}
        return {**feature(place, category="shop"), "id": "a"}

    write_geojson(folder / "metres.geojson", [point(565_000, 5_932_000)])
    write_geojson(folder / "twice.geojson", [point(9.99, 53.54), point(10.0, 53.54)])
    subscription = {"subId": "one", "descriptor": {"refs": [1], "stages": []}}
    contents = {
        "town.geojson": town(),
        "cut.geojson": town()[:300],
        "stops.csv": "id;lon;lat\n",
        "typing-error.toml": '[[source]]\npath = "town.geojson"\nidfield = "ref"\n',
        "rules.toml": '[[rule]]\nmatch = { kind = "parking" }\n',
        "guarded.toml": '[broker]\nacl_file = "acl"\n',
        "acl": "user anna\ntopic reed traffic/#\n",
        "subscriptions.jsonl": json.dumps(subscription) + "\n",
    }
    for name, content in contents.items():
        (folder / name).write_text(content, "utf-8")
    options = "--id-field ref --category-field kind --category town --name-field title"
    source = str(folder / "town.geojson")
    assert run(["import", source, "--world", str(folder / "world"), *options.split()]) == 0
    return folder


def files_in(folder: Path) -> set[Path]:
    """All files but the lock of an import that has begun."""
    return {path for path in folder.rglob("*") if path.is_file() and path.name != ".import.lock"}


@pytest.mark.parametrize(("typed", "line"), MISTAKES, ids=[typed for typed, _ in MISTAKES])
def test_a_mistake(
    typed: str, line: str, ground: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(ground)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    before = files_in(ground)
    _, *arguments = shlex.split(typed)
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"{line}\n")
    assert files_in(ground) == before


def test_the_page_has_forty_mistakes() -> None:
    assert len({typed for typed, _ in MISTAKES}) >= 40
