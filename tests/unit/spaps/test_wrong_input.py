"""Commands and jobs with wrong input: one line in the reader's words, exit code 2, nothing lost."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from jobs import import_world as import_job
from jobs import push_to_redis, rebuild, resolve_neighborhoods
from spaps.cli import show_generation
from spaps.cli.command_line import run
from tests.scenes.source_files import feature, write_geojson, write_geoparquet
from world.imports.world_import import import_world
from world.versions.store import WorldStore

ONE = "({1},{#},D)"
NOWHERE = "redis://127.0.0.1:1"
POINT = shapely.Point(13.4, 52.5)
ENTITY = {"peid": 1, "categories": ["a"], "geometry": POINT}


def at(kind: str, coordinates: str) -> str:
    """A neighborhood around a place, without spaces."""
    place = f'{{"at":{{"type":"{kind}","coordinates":{coordinates}}}}}'
    return f'{{"refs":[{place}],"stages":[{{"cats":["#"],"cond":"C"}}]}}'


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a world and with files that are wrong in many ways."""
    folder = tmp_path_factory.mktemp("ground")
    contents: dict[str, bytes] = {
        "empty.geojson": b"", "empty.osm": b"", "empty.osm.pbf": b"", "empty.parquet": b"",
        "bytes.geojson": b"\xff\xfe\x00", "bytes.osm.pbf": b"\x00" * 100, "text.parquet": b"hello",
        "cut.osm": b"<osm version='0.6'><node id='1'", "list.geojson": b"[1, 2]",
        "number.geojson": b'{"type": "FeatureCollection", "features": [1]}',
        "nothing.geojson": b'{"type": "FeatureCollection", "features": []}',
        "point.geojson": b'{"type": "Point", "coordinates": [1, 2]}', "unknown.txt": b"hello",
        "broken.jsonl": b"{oh no\n", "bytes.jsonl": b"\xff\n", "empty.jsonl": b"\n",
        "broken.toml": b"x = [", "key.toml": b"[world]\ncolour = 'red'\n", "rules.toml": b"[[x]]",
        "empty.geojsonl": b"", "line.ndjson": b'\n{"type": "Feature"', "list.geojsonl": b"[1]",
        "crs.geojson": b'{"type": "FeatureCollection", "features": [], "crs": {"a": 1}}',
        "no-id.geojson": b'{"type": "Feature", "properties": {"category": "a"}, "geometry": null}',
        "no-category.geojson": b'{"type": "Feature", "id": "a", "geometry": null}',
        "text.gpkg": b"hello", "text.shp": b"hello", "folder.csv": b"",
        "option.toml": b"[[source]]\npath = 'good.geojson'\ncolour = 'red'",
        "layer.toml": b"[[source]]\npath = 'good.geojson'\nlayer = 'roads'",
        "source.toml": b"[[source]]\npath = 'no.geojson'",
        "broken.json": b"{", "deep.json": b'{"a":' * 5000, "large.json": b" " * 2**21,
    }  # fmt: skip
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    (folder / "delta" / "_delta_log").mkdir(parents=True)
    (folder / "delta" / "_delta_log" / f"{0:020}.json").write_text("{")
    pq.write_table(pa.table({"peid": [1]}), folder / "plain.parquet")
    write_geoparquet(folder / "no-crs.parquet", [ENTITY], crs=None)
    nowhere = shapely.Point(float("nan"), float("inf"))
    write_geoparquet(folder / "nan.parquet", [{**ENTITY, "geometry": nowhere}])
    write_geoparquet(folder / "no-peid.parquet", [{"categories": ["a"], "geometry": POINT}])
    line = {"subId": 1, "descriptor": {"refs": [1], "stages": [{"cats": ["#"], "cond": "D"}]}}
    (folder / "good.jsonl").write_text(json.dumps(line))
    source = write_geojson(
        folder / "good.geojson", [feature(POINT, peid=n, categories=["a"]) for n in (1, 2)]
    )
    import_world([source], folder / "world")
    return folder


COMMANDS: list[tuple[str, str]] = [
    # Sources
    ("import no.geojson", "no.geojson: no such file"),
    ("import unknown.txt", "unknown.txt: cannot tell what this is; known endings"),
    ("import folder", "folder: a folder without a .parquet file"),
    ("import ''", "a SOURCE is empty: give the path of a file"),
    ("import empty.geojson", "empty.geojson: not JSON: an empty file"),
    ("import empty.osm", "empty.osm: "),
    ("import empty.osm.pbf", "empty.osm.pbf: "),
    ("import empty.parquet", "empty.parquet: not Parquet"),
    ("import bytes.geojson", "bytes.geojson: not UTF-8 text (byte 2)"),
    ("import bytes.osm.pbf", "bytes.osm.pbf: "),
    ("import text.parquet", "text.parquet: not Parquet"),
    ("import cut.osm", "cut.osm: "),
    ("import list.geojson", "list.geojson: not GeoJSON with features"),
    ("import point.geojson", "point.geojson: not GeoJSON with features"),
    ("import number.geojson", "its features must be a list of objects"),
    ("import nothing.geojson", "there is nothing in them to import"),
    ("import plain.parquet", "plain.parquet: no column of geometries: "),
    ("import no-crs.parquet", "no-crs.parquet: its geometry has no CRS"),
    ("import no-peid.parquet", "no column 'peid', 'key' or 'id': name a column that is different"),
    ("import empty.geojsonl", "there is nothing in them to import"),
    ("import line.ndjson", "line.ndjson, line 2: not JSON: "),
    ("import list.geojsonl", "list.geojsonl, line 1: not a GeoJSON feature"),
    ("import crs.geojson", "the CRS that this file names is not known"),
    ("import no-id.geojson", "no feature has an id or the property 'peid': name a property"),
    ("import no-category.geojson", "no feature has the property 'categories' or 'category': "),
    ("import text.gpkg", "text.gpkg: "),
    ("import text.shp", "text.shp: "),
    ("import delta --crs EPSG:25833", "delta: "),
    ("import good.geojson --crs EPSG:25832", "--crs: not for good.geojson, only for geoparquet, "),
    ("import good.geojson --layer roads", "--layer: not for good.geojson, only for geopackage"),
    ("import good.geojson --geometry-field g", "--geometry-field: not for good.geojson, only"),
    ("import good.geojson --dry-run --strict --category a//b", "has an empty level"),
    ("import no-id.geojson --dry-run", "no feature has an id or the property 'peid'"),
    # Import files
    ("import no.toml", "no.toml: no such file"),
    ("import broken.toml", "broken.toml: "),
    ("import key.toml", "key.toml: unknown key 'world'; known: snap, source, srid"),
    ("import option.toml", "option.toml, source 1: unknown key 'colour'; known: category, "),
    ("import layer.toml", "layer.toml, source 1: layer: not for good.geojson"),
    ("import source.toml", "no.geojson: no such file"),
    ("import source.toml good.geojson", "source.toml: an import file stands alone"),
    ("import source.toml --category a", "--category: with an import file, write category into"),
    ("import nan.parquet", "has a coordinate that is not a finite number"),
    ("import good.geojson no.geojson", "no.geojson: no such file"),
    # Options of an import
    ("import good.geojson --srid -1", "srid -1: there is no such EPSG code"),
    ("import good.geojson --srid 1" + "0" * 30, "there is no such EPSG code"),
    ("import good.geojson --srid 4326", "does not measure in metres"),
    ("import good.geojson --srid x", "--srid must be a whole number, not 'x'"),
    ("import good.geojson --rules no.toml", "rules no.toml: No such file"),
    ("import good.geojson --rules folder", "rules folder: Is a directory"),
    ("import good.geojson --rules broken.toml", "rules broken.toml: "),
    ("import good.geojson --rules rules.toml", "unknown key 'x'"),
    ("import good.geojson --category a//b", "--category: category 'a//b' has an empty level"),
    ("import good.geojson --id-field colour", "no feature has the property 'colour'"),
    ("import good.geojson --id-field ''", "--id-field is empty"),
    ("import good.geojson --category-field colour", "no feature has the property 'colour' that"),
    ("import good.geojson --name-field colour", "no feature has the property 'colour' that"),
    ("import good.geojson --crs nowhere", "--crs: 'nowhere' is no CRS: give an EPSG code"),
    ("import good.geojson --snap -1", "snap: -1.0 must be metres, from 0 to 100"),
    ("import good.geojson --snap 1e9", "must be metres, from 0 to 100"),
    ("import good.geojson --snap x", "--snap must be a number, not 'x'"),
    # Exports
    ("export o.txt --world world", "o.txt: cannot tell the format; known endings: .parquet"),
    ("export o.csv --world no", "no world at no: import one"),
    ("export o.csv --world world --version 9", "has no version 9 (there: 1)"),
    ("export o.csv --world world --neighborhood (", "at character 2"),
    ("export o.csv --world world --neighborhood ({9},{a},D)", "no reference exists"),
    ("export folder/../folder.csv/o.csv --world world", "a part of its path is a file"),
    ("import good.geojson --config broken.toml", "broken.toml: "),
    ("import good.geojson --config key.toml", "unknown setting world.colour"),
    ("import good.geojson --config folder", "folder: Is a directory"),
    # Worlds
    ("import good.geojson --world ''", "the folder of the world (world.dir) is an empty text"),
    ("import good.geojson --world good.geojson", "good.geojson: is a file, not a folder"),
    ("import good.geojson --world /proc/world", "/proc/world: No such file or directory"),
    (f"resolve {ONE} --world ''", "the folder of the world (world.dir) is an empty text"),
    (f"resolve {ONE} --world no", "no world at no: import one"),
    (f"resolve {ONE} --world good.geojson", "good.geojson: is a file, not a folder"),
    (f"resolve {ONE} --version 99", "has no version 99 (there: 1)"),
    (f"resolve {ONE} --version -1", "has no version -1 (there: 1)"),
    (f"resolve {ONE} --version 1{'0' * 30}", "(there: 1)"),
    (f"resolve {ONE} --version 1.5", "--version must be a whole number, not '1.5'"),
    ("versions --world no", "no world at no"),
    ("versions --world good.geojson", "good.geojson: is a file, not a folder"),
    (
        f"rebuild good.geojson --world '' --redis {NOWHERE}",
        "the folder of the world (world.dir) is",
    ),
    ("broker --world no", "no world at no"),
    ("broker --world good.geojson", "good.geojson: is a file, not the folder of a world"),
    # Descriptors
    ("check broken.json", "the descriptor is not JSON"),
    ("check deep.json", "nested"),
    ("check large.json", "larger than any descriptor can be"),
    ("check @bytes.jsonl", "bytes.jsonl: not UTF-8 text"),
    ("check @folder", "folder: Is a directory"),
    ("check ''", "'' is no neighborhood and no file"),
    ("check ({1},{#},DW-1)", "expected a distance in metres"),
    ("check ({1},{#},DWnan)", "expected a relation"),
    ("check ({99999999999999999999},{#},C)", "an integer that is too large"),
    ("check ({at:POINT(7},{#},C)", "stage 1: at character 13: expected a number of degrees"),
    (f"check {at('Point', '[43,97]')}", "the position 43 97; allowed: longitude -180 .. 180"),
    (f"check {at('Point', '[]')}", "a place is empty; allowed: POINT, MULTIPOINT"),
    (f"check {at('Polygon', '[[[0,0],[1,1],[1,0],[0,1],[0,0]]]')}", "is broken: Self-intersection"),
    ("check ({where:5},{#},C)", "expected a number, key:…, name:"),
    ("check ({1},{#},C) --world no", "no world at no: import one"),
    ("check ({1},{#},C) --version 1", "--version needs a world: give --world DIR"),
    ("resolve ({key:none},{#},C)", "no reference exists in world version 1: key:none"),
    ("resolve ({77},{#},C)", "no reference exists in world version 1: 77"),
    # Files of subscriptions
    ("resolve --subscriptions no.jsonl --out o", "no.jsonl: No such file"),
    ("resolve --subscriptions folder --out o", "folder: Is a directory"),
    ("resolve --subscriptions broken.jsonl --out o", "none of the 1 subscriptions could be"),
    ("resolve --subscriptions bytes.jsonl --out o", "bytes.jsonl: not UTF-8 text (byte 0)"),
    ("resolve --subscriptions empty.jsonl --out o", "there is no subscription in it"),
    ("resolve --subscriptions good.jsonl --out folder", "folder: is a folder, not a file"),
    ("resolve --subscriptions good.jsonl --out good.geojson/o", "a part of its path is a file"),
    # Rebuilds
    ("rebuild no.geojson", "no.geojson: no such file"),
    ("rebuild good.geojson --engine warp", "must be one of auto, exact, spark, not 'warp'"),
    ("rebuild good.geojson --keep-versions 0", "rebuild.keep_versions must be 1 or more"),
    ("rebuild good.geojson --grace nan", "grace_seconds must be a number of seconds, 0 or more"),
    ("rebuild good.geojson --cron x", "--cron 'x': has 1 fields instead of minute, hour"),
    (f"rebuild good.geojson --redis {NOWHERE}", "Redis at 127.0.0.1:1: "),
    ("rebuild good.geojson --redis nonsense", "Redis URL nonsense: begins with none of redis://"),
    ("rollback 99", "has no version 99 (there: 1)"),
    ("rollback x", "spaps: N must be a whole number, not 'x'"),
    (f"versions --redis {NOWHERE}", "Redis at 127.0.0.1:1: "),
    ("versions surplus", "unexpected argument 'surplus'"),
    # The broker and its clients
    ("broker --listen 127.0.0.1:99999", "broker.listen must be HOST:PORT"),
    ("broker --memberships x", "must be memory, redis or none, not 'x'"),
    ("broker --config no.toml", "no.toml: No such file"),
    ("passwd folder ann", "folder: Is a directory"),
    ("passwd bytes.jsonl ann", "bytes.jsonl: not UTF-8 text (byte 0)"),
    ("passwd users ann --delete", "users: no user 'ann'"),
    ("sub -t # -p 0", "--port must be at least 1"),
    ("sub -t # --qos 3", "--qos must be at most 2"),
    ("sub -t # --neighborhood ({", "expected a number, key:…, name:"),
    ("sub -t # -c", "-c resumes the session of a client id: give it with -i"),
    ("pub -t x -m y -h 127.0.0.1 -p 1", "no connection to 127.0.0.1:1"),
    ("pub -t '' -m y", "the topic of a message is empty"),
    ("pub -t x -m y --peid -1", "a peid is an integer from 0 to 2^63-1, not '-1'"),
    (f"pub -t x -m y --peid {2**63}", "a peid is an integer from 0 to 2^63-1"),
    ("pub -t x -m y --peid abc", "--peid must be a whole number, not 'abc'"),
    ("top --http 127.0.0.1:1 -n 1", "no metrics at http://127.0.0.1:1/metrics: Connection refused"),
    ("frobnicate", "No such command 'frobnicate'"),
]
WITH_A_WORLD = ("resolve", "rebuild", "rollback", "versions", "broker")

JOBS: list[tuple[Callable[[list[str]], int], str, str]] = [
    (import_job.main, "", "the following arguments are required: SOURCE, --world"),
    (import_job.main, "no.geojson --world new", "no.geojson: no such file"),
    (import_job.main, "bytes.geojson --world new", "bytes.geojson: not UTF-8 text"),
    (import_job.main, "good.geojson --world good.geojson", "is a file, not a folder"),
    (import_job.main, "good.geojson --world new --srid 1.5", "--srid: must be a whole number"),
    (import_job.main, "good.geojson --world new --srid 4326", "does not measure in metres"),
    (rebuild.main, "no.geojson --world new", "no.geojson: no such file"),
    (rebuild.main, "good.geojson --engine warp", "invalid choice: 'warp'"),
    (rebuild.main, "--world new", "nothing to rebuild from: give the source files"),
    (rebuild.main, "good.geojson --world new --redis nonsense", "Redis URL nonsense: begins"),
    (push_to_redis.main, "", "the following arguments are required: --memberships"),
    (push_to_redis.main, "--memberships x --grace nan", "must be a number of seconds, 0 or more"),
    (push_to_redis.main, "--memberships x --keep -1", "--keep: must be a whole number, 0 or more"),
    (push_to_redis.main, "--memberships x --commit y", "--commit: must be a whole number"),
    (resolve_neighborhoods.main, "--version x", "--version: must be a whole number"),
    (resolve_neighborhoods.main, "--colour red", "unrecognized arguments: --colour red"),
    (show_generation.main, "--peid x", "--peid: must be a whole number"),
    (show_generation.main, f"--redis {NOWHERE}", "Redis at 127.0.0.1:1: "),
]


def words(line: str) -> list[str]:
    return [word.replace("''", "") for word in line.split()]


def assert_nothing_lost(ground: Path) -> None:
    """The world is as it was, and no result stands beside it."""
    [facts] = WorldStore(str(ground / "world")).versions()
    assert (facts.version, facts.entity_count) == (1, 2)
    assert not [name for name in ("o", "o.parquet", "new/versions") if (ground / name).exists()]


@pytest.fixture(autouse=True)
def in_the_ground(ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ground)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))


@pytest.mark.parametrize(("line", "expected"), COMMANDS, ids=[line for line, _ in COMMANDS])
def test_a_command(
    line: str, expected: str, ground: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = words(line)
    if "--world" not in arguments:
        world = "world" if arguments[0] in WITH_A_WORLD else "new"
        arguments += ["--world", world] if arguments[0] in (*WITH_A_WORLD, "import") else []
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("spaps: ")
    assert said.err.count("\n") == 1
    assert "unexpected error" not in said.err
    assert expected in said.err
    assert_nothing_lost(ground)


@pytest.mark.parametrize(("main", "line", "expected"), JOBS)
def test_a_job(
    main: Callable[[list[str]], int], line: str, expected: str, ground: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    try:
        code = main(words(line))
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2
    *before, last = capsys.readouterr().err.splitlines()
    assert last.startswith("error: ")
    assert expected in last
    assert not [each for each in before if "rror" in each or "Traceback" in each]
    assert_nothing_lost(ground)


def test_reading_commands_create_nothing(ground: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def tree() -> set[Path]:
        return {Path(folder, name) for folder, _, files in os.walk(ground) for name in files}

    before = tree()
    commands = [
        f"resolve {ONE} --world world", f"resolve {ONE} --world no", f"check {ONE}",
        "versions --world world", "versions --world no",
        "resolve --subscriptions broken.jsonl --out o --world world",
    ]  # fmt: skip
    codes = [run(words(command)) for command in commands]
    assert codes == [0, 2, 0, 0, 2, 2]
    assert "Traceback" not in capsys.readouterr().err
    assert tree() == before
