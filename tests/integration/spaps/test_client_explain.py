"""``spaps sub --explain``: each message with the stages that matched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from schemas.language.notation import parse_notation, read_neighborhood
from spaps import SpatialClient
from spaps.cli.message_printer import stage_subscriptions
from spatial_udfs.exact.exact_resolver import ExactResolver
from tests.scenes.surroundings import Surroundings
from tests.servers.running_broker import PATIENCE, RunningBroker
from world.snapshot import load_snapshot

SUB = [sys.executable, "-c", "from spaps.cli.command_line import main; main()", "sub"]


def explained(
    broker: RunningBroker, messages: list[tuple[str, int]], stages: int, *arguments: str
) -> tuple[list[str], list[str]]:
    """Publish when all stages are subscribed to; the lines on stdout and stderr."""
    process = subprocess.Popen(
        [*SUB, "-p", str(broker.port), "--explain", "-C", str(len(messages)), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    legend = [process.stderr.readline() for _ in range(stages)]
    with SpatialClient("127.0.0.1", broker.port) as client:
        for payload, peid in messages:
            client.publish("explain/a", payload, peid=peid, qos=1).wait()
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    return out.splitlines(), legend


def test_the_stage_of_each_message(
    open_broker: RunningBroker, surroundings: Surroundings, city: Path
) -> None:
    neighborhood = read_neighborhood(surroundings.descriptor)
    found = ExactResolver(load_snapshot(str(city))).resolve(neighborhood).stages
    members = [int(one[0]) for one in found if len(one)]
    assert len(members) == 3
    messages = [(f"member of {number}", peid) for number, peid in enumerate(members, start=1)]
    arguments = ("-t", "explain/#", "-q", "1", "-v", "--neighborhood")
    out, legend = explained(open_broker, messages, 3, *arguments, surroundings.descriptor)
    assert out == [f"[stage {n}] explain/a member of {n}" for n in (1, 2, 3)]
    assert legend[0].startswith("stage 1: entities in road or below that touch entity")
    assert legend[2].startswith("stage 3: ")


def test_a_hidden_stage_and_an_entity_in_two_stages(
    open_broker: RunningBroker, surroundings: Surroundings, city: Path
) -> None:
    """Back and forth between a road and its neighbors, by a neighborhood that has a name."""
    (road,) = json.loads(surroundings.descriptor)["refs"]
    stage = {"cats": ["road/#"], "cond": "T"}
    again = {"refStages": "Anc", **stage, "repeat": 3}
    visible = [True, False, True, True]
    descriptor = {"name": "to and fro", "refs": [road], "stages": [stage, again]}
    descriptor["visible"] = visible
    text = json.dumps(descriptor)
    neighborhood = read_neighborhood(text)
    found = ExactResolver(load_snapshot(str(city))).resolve(neighborhood).stages
    both = int(set(found[0].tolist()).intersection(found[2].tolist()).pop())
    stages = [n for n, one in enumerate(found, start=1) if visible[n - 1] and both in one]
    assert stages[:2] == [1, 3]
    arguments = ("-t", "explain/#", "--neighborhood", text)
    out, legend = explained(open_broker, [("x", both)], 3, *arguments)
    assert out == [f"[to and fro: stages {', '.join(map(str, stages))}] x"]
    assert [line.partition(":")[0] for line in legend] == ["stage 1", "stage 3", "stage 4"]
    (line,), _ = explained(open_broker, [("x", both)], 3, *arguments, "--json")
    assert json.loads(line)["stages"] == stages


def test_it_chooses_the_nsids_and_needs_a_neighborhood() -> None:
    for arguments in (("-t", "a"), ("-t", "a", "--neighborhood", "({1},{#},T)", "--nsid", "1")):
        done = subprocess.run(
            [*SUB, "--explain", *arguments], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "--explain needs a --neighborhood" in done.stderr


def test_one_subscription_for_each_visible_stage() -> None:
    whole = parse_notation("({1},{a},T) • 2(Prev,{b},T) • ({2},{c},C) visible 1011")
    parts = stage_subscriptions(whole)
    assert [one.number for one in parts] == [1, 3, 4]
    assert [one.neighborhood.visible.index(True) + 1 for one in parts] == [1, 3, 4]
    assert all(sum(one.neighborhood.visible) == 1 for one in parts)
    assert {one.neighborhood.stages for one in parts} == {whole.stages}
