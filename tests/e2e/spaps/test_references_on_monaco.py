"""Commands with references by key, by name and by place, on the sample world."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spaps.cli.command_line import run

QUARTER = 4000000005986438
BY_PEID = f"({{{QUARTER}}},{{zone/admin/+}},T)"
BY_KEY = "({key:relation/5986438},{zone/admin/+},T)"
CASINO = "at:POINT(7.4277 43.7393)"

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    monaco_world: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """Run a command in an empty folder, on the sample world."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPAPS_WORLD_DIR", monaco_world)
    monkeypatch.setenv("COLUMNS", "200")

    def said(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return run(arguments), *capsys.readouterr()

    return said


def peids(command: Command, descriptor: str) -> list[list[int]]:
    code, out, err = command("resolve", "--json", descriptor)
    assert code == 0, err
    return [[int(peid) for peid in stage["peids"]] for stage in json.loads(out)["stages"]]


def test_a_key_resolves_as_its_peid_does(command: Command) -> None:
    expected = peids(command, BY_PEID)
    assert len(expected[0]) > 1
    assert peids(command, BY_KEY) == expected
    refs = [{"key": "relation/5986438"}]
    stages = [{"cats": ["zone/admin/+"], "cond": "T"}]
    assert peids(command, json.dumps({"refs": refs, "stages": stages})) == expected


def test_a_place_selects_the_quarter_around_it_and_what_is_near(command: Command) -> None:
    assert peids(command, f"({{{CASINO}}},{{zone/admin/10}},W)") == [[QUARTER]]
    near, wider = (
        peids(command, f"({{{CASINO}}},{{shop/#}},DW{reach}")[0] for reach in ("100)", "200)")
    )
    assert 0 < len(near) < len(wider)
    assert set(near) < set(wider)


def test_a_doubtful_name_is_refused_with_what_to_write_instead(command: Command) -> None:
    code, out, err = command("resolve", '({name:"Monte-Carlo"},{zone/admin/+},T)')
    assert (code, out) == (2, "")
    assert err.startswith('spaps: stage 1: 5 entities have the name "Monte-Carlo": 1000')
    assert f"{QUARTER} (key relation/5986438, zone/admin/10)" in err
    assert err.endswith("allowed: a name of one entity, or the peid or the key of one of these\n")


def test_check_needs_no_world_and_uses_one(command: Command, monaco_world: str) -> None:
    code, out, err = command("check", f"({{key:relation/5986438,{CASINO}}},{{shop/#}},DW200)")
    assert (code, err) == (0, "")
    near = "are at most 200 m from one of the entity with key relation/5986438 and"
    assert out.splitlines()[:2] == [
        "({key:relation/5986438,at:POINT(7.4277 43.7393)},{shop/#},DW200)",
        f"  Stage 1: entities in shop or below that {near} POINT(7.4277 43.7393).",
    ]
    code, out, err = command(
        "check", "--world", monaco_world, f"({{key:relation/5986438,key:no,{CASINO}}},{{#}},I)"
    )
    assert out.startswith(f"({{{QUARTER},at:POINT(7.4277 43.7393)}},{{#}},I)\n")
    assert "share a point with one of Monte-Carlo and POINT(7.4277 43.7393)." in out
    assert (code, err) == (0, "warning: not in world version 1: key:no\n")
    code, out, err = command("check", "--world", monaco_world, "({key:no},{#},I)")
    assert (code, err) == (2, "spaps: no reference exists in world version 1: key:no\n")
    code, out, err = command("check", "--version", "1", "({key:no},{#},I)")
    assert (code, err) == (2, "spaps: --version needs a world: give --world DIR\n")
    crossed = "POLYGON((0 0,1 1,1 0,0 1,0 0))"
    code, out, err = command("check", f"({{at:{crossed}}},{{#}},I)")
    assert code == 2
    assert err.startswith(f"spaps: stage 1: the place {crossed} is broken: Self-intersection[0.5")


@pytest.mark.parametrize("verb", ["check", "resolve"])
def test_a_pattern_without_a_category_is_a_warning(
    command: Command, monaco_world: str, verb: str
) -> None:
    code, _, err = command(verb, "--world", monaco_world, "({key:relation/5986438},{shp/#},C)")
    expected = (
        "warning: stage 1: no category of world version 1 matches shp/#; did you mean shop/#?\n"
    )
    assert (code, err) == (0, expected)


def test_what_does_not_exist_is_a_warning(command: Command) -> None:
    code, out, err = command("resolve", "--json", f"({{{QUARTER},key:no}},{{zone/admin/+}},T)")
    assert (code, err) == (0, "warning: not in world version 1: key:no\n")
    assert json.loads(out)["missingRefs"] == ["key:no"]


def test_a_place_is_drawn_in_geojson_and_named_on_the_map_page(
    command: Command, tmp_path: Path
) -> None:
    arguments = ("--geojson", "near.geojson", "--map", "near.html")
    code, _, err = command("resolve", *arguments, f"({{{CASINO}}},{{shop/#}},DW100)")
    assert code == 0, err
    features = json.loads((tmp_path / "near.geojson").read_text("utf-8"))["features"]
    [place] = [one for one in features if one["properties"]["stageNo"] == 0]
    assert place["geometry"] == {"type": "Point", "coordinates": [7.4277, 43.7393]}
    assert place["properties"]["peid"] is None
    assert "POINT(7.4277 43.7393)" in (tmp_path / "near.html").read_text("utf-8")


def test_an_export_takes_them_too(command: Command, tmp_path: Path) -> None:
    code, _, err = command("export", "near.parquet", "--neighborhood", BY_KEY)
    assert code == 0, err
    rows = pq.read_table(tmp_path / "near.parquet")
    assert sorted(rows.column("peid").to_pylist()) == peids(command, BY_KEY)[0]
    code, _, err = command("export", "x.csv", "--neighborhood", f"({{key:no,{CASINO}}},{{#}},I)")
    assert (code, err) == (0, "warning: not in world version 1: key:no\n")


def test_a_file_of_subscriptions_takes_them_too(command: Command, tmp_path: Path) -> None:
    descriptors = [
        {"refs": refs, "stages": [{"cats": ["zone/admin/+"], "cond": "T OR C OR W"}]}
        for refs in (
            [QUARTER],
            [{"key": "relation/5986438"}],
            [{"at": "POINT(7.4277 43.7393)"}],
            [{"key": "no"}, QUARTER],
            [{"key": "no"}],
            [{"name": "Monte-Carlo"}],
            [{"at": "POLYGON((0 0,1 1,1 0,0 1,0 0))"}],
            [{"at": "POINT EMPTY"}],
        )
    ]
    lines = [
        json.dumps({"subId": number, "descriptor": descriptor})
        for number, descriptor in enumerate(descriptors)
    ]
    (tmp_path / "many.jsonl").write_text("\n".join(lines), "utf-8")
    code, out, err = command("resolve", "--subscriptions", "many.jsonl", "--out", "rows.parquet")
    assert code == 0
    assert out.startswith("4 of 8 subscriptions resolved on world version 1")
    said = [line.split("; allowed")[0][:70] for line in err.splitlines()]
    assert said == [
        "missing reference: subId 3: not in world version 1: key:no",
        "unresolved: line 8: stage 1: a place is empty",
        "unresolved: subId 4: no reference exists in world version 1: key:no",
        'unresolved: subId 5: stage 1: 5 entities have the name "Monte-Carlo": ',
        "unresolved: subId 6: stage 1: the place POLYGON((0 0,1 1,1 0,0 1,0 0))",
    ]
    rows = pq.read_table(tmp_path / "rows.parquet").to_pydict()
    of = {
        number: {
            peid for sub, peid in zip(rows["subId"], rows["peid"], strict=True) if sub == number
        }
        for number in range(len(descriptors))
    }
    assert of[0] == of[1] == of[3]
    assert len(of[0]) > 1
    assert QUARTER in of[2]
    assert QUARTER not in of[0]
