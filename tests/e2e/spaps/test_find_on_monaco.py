"""``spaps find`` and ``spaps categories`` on the sample world."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.language.categories import matching
from tests.scenes.command_output import Inside
from tests.scenes.searched_town import CONTROL, ENTITIES, write_town
from world.snapshot import load_snapshot

Spaps = Callable[..., subprocess.CompletedProcess[str]]
QUARTER = "4000000005986438"


def test_a_name_is_found_in_any_case_and_its_peid_is_text(spaps: Spaps) -> None:
    done = spaps("find", "MONTE carlo", "--category", "zone/#", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["version"] == 1
    assert found["count"] == len(found["entities"])
    first = found["entities"][0]
    assert first["peid"] == QUARTER
    assert first["name"] == "Monte-Carlo"
    assert first["categories"] == ["zone/admin/10"]


def test_words_need_no_quotes_and_a_place_far_away_is_doubted(inside: Inside) -> None:
    done = inside("find", "MONTE", "carlo", "--category", "zone/#", "--json")
    assert json.loads(done.stdout)["entities"][0]["peid"] == QUARTER
    done = inside("find", "--near", "43.7391,7.4276", "--limit", "1")
    assert done.returncode == 0
    assert "km away: --near takes longitude first, then latitude" in done.stderr
    done = inside("find", "--near", "7.4276,43.7391", "--limit", "0")
    assert done.stderr == ""


def test_the_table_shows_what_was_found_and_how_much_more(inside: Inside) -> None:
    done = inside("find", "casino", "--limit", "3")
    assert done.returncode == 0
    assert "Casino de Monte Carlo" in done.stdout
    assert "culture/casino" in done.stdout
    assert "--limit 0 prints all" in done.stderr
    everything = inside("find", "casino", "--limit", "0")
    assert len(everything.stdout.splitlines()) > len(done.stdout.splitlines())
    assert everything.stderr == ""


def test_around_a_place_with_a_category(inside: Inside) -> None:
    done = inside("find", "--near", "7.4276,43.7391", "--category", "culture/#", "--json")
    found = json.loads(done.stdout)["entities"]
    distances = [one["distance"] for one in found]
    assert distances == sorted(distances)
    assert found[0]["name"] == "Casino de Monte Carlo"
    assert distances[0] < 100
    shown = inside("find", "--near", "7.4276,43.7391", "--within", "100", "casino")
    assert " m " in shown.stdout


def test_nothing_found_is_no_error_and_says_so(inside: Inside) -> None:
    done = inside("find", "xyzzy")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "nothing found in world version 1\n"
    assert json.loads(inside("find", "xyzzy", "--json").stdout)["entities"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["find"], "nothing to look for"),
        (["find", "--near", "43.7,97.4"], "longitude comes first"),
        (["find", "--category", "road"], "road/# has everything below it"),
        (["find", "a", "--limit", "-1"], "--limit must be at least 0"),
        (["find", "a", "--version", "9"], "has no version 9"),
        (["find", "a", "--world", "/nowhere"], "no world at /nowhere"),
        (["categories", "shp/#"], "matches 'shp/#'; did you mean shop/#?"),
    ],
)
def test_wrong_input_is_one_line(inside: Inside, arguments: list[str], said: str) -> None:
    done = inside(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_control_characters_never_reach_the_terminal(inside: Inside, tmp_path: Path) -> None:
    world = write_town(tmp_path / "town")
    for options in ([], ["--json"]):
        done = inside("find", "bell", "--world", world, *options)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout
        assert "\x07" not in done.stdout
    (found,) = json.loads(done.stdout)["entities"]
    assert found["name"] == CONTROL
    last = json.loads(inside("find", "last stop", "--world", world, "--json").stdout)
    assert last["entities"][0]["peid"] == str(ENTITIES[-1][0])


def test_the_category_tree_counts_the_world(inside: Inside, monaco_world: str) -> None:
    done = inside("categories", "--json")
    assert done.returncode == 0, done.stderr
    told = {one["category"]: one for one in json.loads(done.stdout)["categories"]}
    table = load_snapshot(monaco_world)
    for pattern in ("road/#", "transport/stop/#", "zone/admin/10"):
        names = matching([pattern], table.category_names)
        true = sum(not names.isdisjoint(table.categories_at(row)) for row in range(len(table)))
        assert told[pattern.removesuffix("/#")]["entities"] == true
    tops = inside("categories", "--levels", "1").stdout
    assert f"{told['road']['entities']:,}" in tops
    assert "road/major" not in tops
    assert "transport/stop/bus" in inside("categories", "transport/#").stdout
