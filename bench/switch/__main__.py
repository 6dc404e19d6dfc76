"""Latency and memory while a broker changes over: ``python -m bench.switch`` (make bench-switch).

A broker restores 100,000 subscriptions of clients that are away. A client publishes to itself
about entities of its neighborhood at a steady rate; meanwhile the generation in force is
switched several times, each time to another world version. Both generations lie in Redis
before: what a push costs is ``make bench-rebuild``'s business. At the end, how soon the broker
notices a switch of which a message tells, and one whose message is lost.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import mqtt5
import numpy as np

from bench.broker.heavy_subscribe import Link
from bench.memory_watch import MemoryWatch
from bench.switch.clients import Stream, WorldWatch
from bench.switch.report import SwitchReport, Timed
from bench.switch.scene import (
    Sizes,
    point_to,
    push_generation,
    running_broker,
    seconds_to_notice,
    write_subscriptions,
)
from redis_link.connection.client import RedisClient, connect
from redis_link.connection.embedded import EmbeddedRedis
from schemas.language.descriptor_json import parse_descriptor
from schemas.mqtt_names import CHANGES_TOPIC
from spatial_udfs.exact.exact_resolver import ExactResolver
from testing.city_edits import edited_city
from testing.synthetic_city import synthetic_city
from testing.world_writers import entity_rows
from world.snapshot import load_snapshot
from world.versions.store import WorldStore

OUT: Final = Path("out")
PAGE: Final = Path("docs/figures/switch.md")
# After a switch the old generation is taken apart; that belongs to it.
AFTER_SECONDS: Final = 6.0
QUIET_SECONDS: Final = 15.0
NEAR: Final = {"cats": ["#"], "cond": "DW400"}


def measure(options: argparse.Namespace) -> SwitchReport:
    """Measure everything in a folder that is gone afterwards."""
    sizes = Sizes(options.subscriptions, options.members)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spaps-switch-")))
        server = stack.enter_context(EmbeddedRedis(folder / "redis"))
        client = connect(server.url)
        world = str(folder / "world")
        store = WorldStore(world)
        table = synthetic_city(options.entities)
        for state in (table, edited_city(table, 0.01, seed=1)):
            store.write_version(entity_rows(state), srid=table.srid)
        peids = np.intersect1d(load_snapshot(world, 1).peids, load_snapshot(world, 2).peids)
        print(f"writing {sizes.subscriptions:,} subscriptions", flush=True)
        write_subscriptions(client, server.url, peids, sizes)
        empty = [
            push_generation(client, peids, Sizes(sizes.subscriptions, 0), version=1, seed=0)
            for _ in range(2)
        ]
        generations = [
            push_generation(client, peids, sizes, version=seed + 1, seed=seed) for seed in (0, 1)
        ]
        print(f"generations of {sizes.subscriptions * sizes.members:,} pairs", flush=True)
        point_to(client, empty[0])
        descriptor = json.dumps({"refs": [int(peids[len(peids) // 2])], "stages": [NEAR]})
        inside = _members_in_both(world, descriptor)
        broker = stack.enter_context(running_broker(folder, world, server.url))
        report = _measured(options, client, generations, broker, (descriptor, inside))
        noticed = _noticing(client, folder, broker[0], empty, options.notices)
        return replace(report, noticed_by_message=noticed[True], noticed_by_look=noticed[False])


def _noticing(
    client: RedisClient, folder: Path, port: int, generations: list[int], times: int
) -> dict[bool, list[float]]:
    """Return the seconds until the broker has noticed a switch, with a notice and without."""
    watch = WorldWatch(port)
    watch.start()
    dice = random.Random(5)  # noqa: S311 - moments, no secrets
    found: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * times):
        target, with_notice = generations[number % 2], number % 4 < 2
        time.sleep(dice.uniform(0, 1))
        seconds = seconds_to_notice(client, folder, target, with_notice=with_notice)
        found[with_notice].append(round(seconds, 3))
        watch.wait_for(target)
    return found


def _measured(
    options: argparse.Namespace,
    client: RedisClient,
    generations: list[int],
    broker: tuple[int, int],
    about: tuple[str, list[int]],
) -> SwitchReport:
    (port, pid), (descriptor, inside) = broker, about
    load = os.getloadavg()[0]
    watch = WorldWatch(port)
    watch.start()
    link = Link(port, "stream")
    near = [("neighborhood", descriptor), ("nsid", "1")]
    link.send(mqtt5.SubscribePacket(1, [mqtt5.TopicFilter("stream")], user_properties=near))
    answer = link.wait_for(mqtt5.SubAckPacket)
    assert int(answer.reason_codes[0]) < 0x80, answer  # type: ignore[attr-defined]
    link.send(mqtt5.SubscribePacket(2, [mqtt5.TopicFilter(CHANGES_TOPIC)]))
    link.wait_for(mqtt5.SubAckPacket)
    time.sleep(AFTER_SECONDS)
    with MemoryWatch(pid) as memory:
        without = memory.settled()
        point_to(client, generations[0])
        watch.wait_for(generations[0])
        time.sleep(AFTER_SECONDS)
        size = memory.settled() - without
        stream = Stream(link, inside, options.rate)
        before = memory.settled()
        stream.start()
        time.sleep(QUIET_SECONDS)
        switches: list[tuple[float, float, float]] = []
        memory.restart()
        for number in range(options.switches):
            target = generations[(number + 1) % 2]
            began = time.perf_counter()
            point_to(client, target)
            in_force = watch.wait_for(target)
            time.sleep(AFTER_SECONDS)
            switches.append((began, in_force, time.perf_counter()))
        peak, tree_peak = memory.peak, memory.tree_peak
        time.sleep(QUIET_SECONDS)
        stream.ended.set()
        stream.join()
        after = memory.settled()
    due, took = np.array(stream.due), np.array(stream.took)
    during = np.zeros(len(due), np.bool_)
    for began, _, ended in switches:
        during |= (due >= began) & (due < ended)
    return SwitchReport(
        command=_command(),
        subscriptions=options.subscriptions, pairs=options.subscriptions * options.members,
        entities=options.entities, rate=options.rate, load_average=load,
        quiet=Timed.of(took[~during]), switching=Timed.of(took[during]),
        seconds_to_switch=[round(in_force - began, 2) for began, in_force, _ in switches],
        generation_megabytes=size, before_megabytes=before, peak_megabytes=peak,
        after_megabytes=after, tree_before_megabytes=memory.tree_before,
        tree_peak_megabytes=tree_peak, noticed_by_message=[], noticed_by_look=[],
    )  # fmt: skip


def _command() -> str:
    """Return the command that was run, for the report."""
    given = " ".join(sys.argv[1:])
    return f"python -m bench.switch {given}" if given else "make bench-switch"


def _members_in_both(world: str, descriptor: str) -> list[int]:
    """Return the entities of the neighborhood in both worlds: messages are about these."""
    wanted = parse_descriptor(descriptor)
    first, second = (
        ExactResolver(load_snapshot(world, version)).resolve(wanted).peids() for version in (1, 2)
    )
    return [int(peid) for peid in np.intersect1d(first, second)]


def main() -> int:
    """Measure, write the report; 0 when the aims are reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=225_150)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--switches", type=int, default=4)
    parser.add_argument("--notices", type=int, default=6, help="switches noticed in each way")
    parser.add_argument("--rate", type=float, default=1_000.0)
    options = parser.parse_args()
    report = measure(options)
    OUT.mkdir(exist_ok=True)
    (OUT / "switch.json").write_text(report.as_json(), "utf-8")
    PAGE.write_text(report.markdown(), "utf-8")
    print(report.markdown())
    return 0 if report.reached() else 1


if __name__ == "__main__":
    raise SystemExit(main())
