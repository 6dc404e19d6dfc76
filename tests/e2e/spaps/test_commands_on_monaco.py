"""The commands on the sample world, as a person types them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from schemas.language.notation import read_neighborhood
from schemas.subscription import Subscription
from spaps.cli.command_line import run
from spaps.cli.membership_file import MembershipFile
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver, Resolution
from tests.scenes.command_output import Inside
from tests.scenes.subscription_files import subscription_line
from world.snapshot import load_snapshot

QUARTER = 4000000005986438
ROADS = f"({{{QUARTER}}},{{road/major/#}},C) • (Prev,{{road/major/#}},T)"
HIDDEN = f"({{{QUARTER}}},{{road/major/#}},C) • (Anc,{{shop/#}},DW20) visible 01"
NOT_JSON = (
    "unresolved: line 2: the descriptor is not JSON: at character 2: "
    "Expecting property name enclosed in double quotes; allowed: one JSON object"
)

Spaps = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def monaco(monaco_world: str) -> EntityTable:
    return load_snapshot(monaco_world)


def resolved(monaco: EntityTable, text: str) -> Resolution:
    return ExactResolver(monaco).resolve(read_neighborhood(text))


def test_resolve_prints_peids_and_names_by_stage(inside: Inside, monaco: EntityTable) -> None:
    done = inside("resolve", ROADS, "--limit", "3")
    assert done.returncode == 0, done.stderr
    first, second = resolved(monaco, ROADS).stages
    for peid in (*first[:3], *second[:3]):
        assert str(peid) in done.stdout
    assert "way/" in done.stdout
    assert str(first[3]) not in done.stdout
    assert f"and {len(first) - 3} more" in done.stdout
    assert "lie inside Monte-Carlo" in done.stdout


def test_resolve_as_json_holds_all_visible_peids_and_nothing_else(
    spaps: Spaps, monaco: EntityTable
) -> None:
    done = spaps("resolve", "--json", "-", given=HIDDEN)
    result = json.loads(done.stdout)
    stages = resolved(monaco, HIDDEN).stages
    assert len(stages[0]) > 0
    assert result["stages"][0] == {"stageNo": 1, "visible": False, "peids": []}
    assert result["stages"][1]["peids"] == [str(peid) for peid in stages[1]]
    assert (result["version"], result["missingRefs"], result["warnings"]) == (1, [], [])


def test_a_descriptor_may_stand_in_a_file(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "roads.txt").write_text(f"{ROADS}\n", "utf-8")
    ways = (ROADS, "roads.txt", "@roads.txt")
    answers = {inside("resolve", "--json", given).stdout for given in ways}
    assert len(answers) == 1
    assert json.loads(answers.pop())["stages"][0]["peids"]


def test_geojson_is_in_degrees_and_names_its_stages(
    inside: Inside, monaco: EntityTable, tmp_path: Path
) -> None:
    assert inside("resolve", "--geojson", "roads.geojson", ROADS).returncode == 0
    features = json.loads((tmp_path / "roads.geojson").read_text("utf-8"))["features"]
    by_stage = {
        stage: [f["properties"]["peid"] for f in features if f["properties"]["stageNo"] == stage]
        for stage in (0, 1, 2)
    }
    first, second = resolved(monaco, ROADS).stages
    texts = [[str(peid) for peid in stage] for stage in ([QUARTER], first, second)]
    assert by_stage == dict(enumerate(texts))
    assert features[0]["id"] == "relation/5986438"
    zone = shapely.from_geojson(json.dumps(features[0]["geometry"]))
    assert features[0]["properties"]["name"] == "Monte-Carlo"
    assert zone.contains(shapely.Point(7.4277, 43.7393))  # the casino
    assert zone.exterior.is_ccw


def test_warnings_go_to_stderr_and_do_not_fail(spaps: Spaps, inside: Inside) -> None:
    hopeless = spaps("check", f"({{{QUARTER}}},{{#}},C AND T)")
    assert hopeless.returncode == 0
    assert "Stage 1: entities of any category" in hopeless.stdout
    assert hopeless.stderr.startswith("warning: stage 1: always empty")
    lost = inside("resolve", "--json", f"({{{QUARTER}, 5}},{{zone/admin/+}},T)")
    assert lost.returncode == 0
    assert lost.stderr == "warning: not in world version 1: 5\n"
    assert json.loads(lost.stdout)["missingRefs"] == ["5"]


def test_no_reference_at_all_is_an_error(inside: Inside) -> None:
    done = inside("resolve", "({5, 6},{#},C)")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "spaps: no reference exists in world version 1: 5, 6\n"


def test_many_subscriptions_become_rows_and_the_bad_ones_are_listed(
    spaps: Spaps, monaco: EntityTable, tmp_path: Path
) -> None:
    good = [Subscription(11, read_neighborhood(HIDDEN)), Subscription(7, read_neighborhood(ROADS))]
    lost = Subscription(8, read_neighborhood("({5},{#},C)"))
    lines = [
        subscription_line(good[0]),
        "{broken",
        "",
        subscription_line(lost),
        subscription_line(good[1]),
        subscription_line(good[1]),
    ]
    (tmp_path / "many.jsonl").write_text("\n".join(lines), "utf-8")
    done = spaps("resolve", "--subscriptions", "many.jsonl", "--out", "deep/rows.parquet")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        NOT_JSON,
        "unresolved: line 6: subId 7 came before",
        "unresolved: subId 8: no reference exists in world version 1: 5",
    ]
    assert done.stdout.startswith("2 of 5 subscriptions resolved on world version 1")
    rows = pq.read_table(tmp_path / "deep" / "rows.parquet")
    assert rows.schema.names == ["subId", "peid", "stageNo"]
    assert rows.schema.types == [pa.int64(), pa.int64(), pa.int32()]
    found = set(zip(*(rows.column(name).to_pylist() for name in rows.schema.names), strict=True))
    wanted = {
        (subscription.sub_id, peid, stage)
        for subscription in good
        for peid, stage in zip(
            *(
                column.tolist()
                for column in ExactResolver(monaco).resolve(subscription.neighborhood).rows()
            ),
            strict=True,
        )
    }
    assert found == wanted
    assert rows.num_rows == len(wanted)


def test_a_file_that_fails_half_way_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    resolution = Resolution(1, (np.array([4, 5], np.int64),), (True,))
    with MembershipFile(path) as memberships:
        memberships.add(1, resolution)

    def fail_half_way() -> None:
        with MembershipFile(path) as memberships:
            memberships.add(2, resolution)
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail_half_way()
    assert pq.read_table(path).column("subId").to_pylist() == [1, 1]
    assert [file.name for file in tmp_path.iterdir()] == ["rows.parquet"]


def test_importing_again_changes_nothing(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(repository / "data" / "monaco.osm.pbf")
    world = str(tmp_path / "world")
    assert run(["import", source, "--world", world]) == 0
    assert "version 1: imported; 9,5" in capsys.readouterr().out
    assert run(["import", source, "--world", world]) == 0
    assert "version 1: unchanged, nothing imported" in capsys.readouterr().out
    assert run(["import", source, "--world", world, "--strict", "--force"]) == 2
    assert "strict import, nothing written" in capsys.readouterr().err
