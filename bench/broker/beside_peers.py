"""The broker beside Mosquitto and amqtt, and what its filter costs: ``make bench-broker``.

Every broker runs on core 0, the load generator and Redis on core 1. The brokers take turns within
each round, and ratios are those of one round, so that what disturbs the machine disturbs all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import numpy as np

from bench.broker.connection import LoadError
from bench.broker.peers import PeerMissingError, amqtt, mosquitto, ours, pinned
from bench.broker.players import (
    AmqttPlayer,
    NeighborhoodPlayer,
    Player,
    TopicPlayer,
    WholeTopicPlayer,
)
from bench.broker.qos.latency import latencies
from bench.broker.qos.rates import qos_rates
from bench.broker.rate import Rate
from bench.broker.report import SINGLES, STREAM, BrokerReport
from bench.broker.scene import FAN_OUT, MEMBERS, ONE_MATCH, Scene, members_of, number_of
from redis_link.connection.client import connect
from redis_link.connection.embedded import EmbeddedRedis
from redis_link.generation.generation_push import PushSource
from redis_link.generation.local_push import push_pairs
from redis_link.generation.sweep import Retention
from redis_link.registry.registry_reader import registered_subscriptions, registry_coverage

BROKER_CORE, LOAD_CORE = 0, 1
OUT: Final = Path("docs/figures")
# What a broker under load must not wait for; other work on the machine may.
PRIORITY: Final = -10
SWITCH_SECONDS: Final = 60.0
# Longer than the benchmark runs: nothing is swept while it measures.
KEPT: Final = Retention(grace_seconds=3_600)


def main() -> int:
    """Run everything; 0 when every aim is reached, 1 when not, 2 when it cannot run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each single run")
    parser.add_argument(
        "--only", default="", choices=("", "throughput", "qos", "latency", "filter", "singles"),
        help="singles: one message a packet by 100 publishers, beside Mosquitto; a minute",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        print("two cores are needed: one for the broker, one for its load", file=sys.stderr)
        return 2
    os.sched_setaffinity(0, {LOAD_CORE})
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    report = BrokerReport("make bench-broker", os.getloadavg()[0])
    began = time.monotonic()
    parts: dict[str, Callable[[], None]] = {
        "throughput": lambda: throughput(report, options.repeats, options.seconds),
        "qos": lambda: qos_rates(report, options.repeats, options.seconds),
        "latency": lambda: latencies(report, options.seconds),
        "filter": lambda: filter_alone(report),
    }
    if options.only == "singles":
        parts = {"singles": lambda: singles(report, options.repeats, options.seconds)}
    try:
        for name, measure in parts.items():
            if options.only in ("", name):
                measure()
                # What is measured is kept, whatever comes next.
                report.seconds = time.monotonic() - began
                report.write(options.out)
    except (PeerMissingError, LoadError) as error:
        print(error, file=sys.stderr)
        return 2
    print(report.markdown())
    return 0 if report.reached() else 1


def throughput(report: BrokerReport, repeats: int, seconds: float) -> None:
    """Measure the publishes a second of all brokers."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spaps-bench-")))
        server = stack.enter_context(EmbeddedRedis(folder / "redis"))
        peer = stack.enter_context(mosquitto(BROKER_CORE, folder))
        report.versions = peer.version
        memory = stack.enter_context(ours("memory", BROKER_CORE, folder / "memory.log"))
        redis = stack.enter_context(ours("redis", BROKER_CORE, folder / "redis.log", server.url))
        none = stack.enter_context(ours("none", BROKER_CORE, folder / "none.log"))
        plain = stack.enter_context(amqtt(BROKER_CORE, folder))
        in_redis = NeighborhoodPlayer(redis)
        players: list[Player] = [
            TopicPlayer(peer), NeighborhoodPlayer(memory), in_redis, WholeTopicPlayer(none),
            AmqttPlayer(plain),
        ]  # fmt: skip
        for scene in (ONE_MATCH, FAN_OUT):
            taking_part = [one for one in players if one.plays(scene)]
            for player in taking_part:
                _say(f"{player.name}: subscribing, each publish goes to {scene.copies}")
                player.subscribe(scene)
            _push_generation(server.url, in_redis)
            for name, method, run in _settings(scene, seconds):
                _rounds(report, name, [one for one in taking_part if method in one.settings],
                        run, repeats)  # fmt: skip
            for player in taking_part:
                player.leave()


def singles(report: BrokerReport, repeats: int, seconds: float) -> None:
    """Measure one message a packet beside Mosquitto alone: the aim that is nearest to its limit."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spaps-bench-")))
        peer = stack.enter_context(mosquitto(BROKER_CORE, folder))
        report.versions = peer.version
        memory = stack.enter_context(ours("memory", BROKER_CORE, folder / "memory.log"))
        players: list[Player] = [TopicPlayer(peer), NeighborhoodPlayer(memory)]
        for player in players:
            player.subscribe(ONE_MATCH)
        (found,) = [one for one in _settings(ONE_MATCH, seconds) if one[0] == SINGLES]
        _rounds(report, SINGLES, players, found[2], repeats)
        for player in players:
            player.leave()


Run = Callable[[Player], Rate]


def _settings(scene: Scene, seconds: float) -> list[tuple[str, str, Run]]:
    """Return what is run with a scene: its name, the kind, and how."""
    if scene.copies > 1:
        return [(f"fan-out 1 to {scene.copies}", "stream", lambda one: one.stream(seconds))]
    return [
        (STREAM, "stream", lambda one: one.stream(seconds)),
        ("one message a packet, 1 publisher", "singles", lambda one: one.singles(1, seconds)),
        ("one message a packet, 10 publishers", "singles", lambda one: one.singles(10, seconds)),
        (SINGLES, "singles", lambda one: one.singles(100, seconds)),
    ]


def _rounds(report: BrokerReport, name: str, players: list[Player], run: Run, repeats: int) -> None:
    """Run all brokers in turn, again and again; the first round only warms up."""
    for turn in range(repeats + 1):
        for player in players:
            rate = run(player)
            if not turn:
                continue
            report.add(name, player.name, rate)
            _say(
                f"{name}, round {turn}: {player.name} {rate.per_second:,.0f} a second "
                f"(broker {rate.broker_share:.0%}, generator {rate.generator_share:.0%})"
            )


def _push_generation(url: str, player: NeighborhoodPlayer) -> None:
    """Put the memberships that the mode redis has registered into Redis, as a rebuild would."""
    client = connect(url)
    registered = [
        (sub_id, number_of(one.descriptor)) for sub_id, one in registered_subscriptions(client)
    ]
    peids = np.concatenate([members_of(number) for _, number in registered])
    sub_ids = np.repeat(np.array([sub_id for sub_id, _ in registered]), MEMBERS)
    _say(f"{player.name}: {len(peids):,} pairs to Redis")
    source = PushSource(1, "bench", registry_coverage(client))
    pushed = push_pairs(client, source, [(peids, sub_ids)], retention=KEPT)
    if pushed.cleanup is not None:
        pushed.cleanup.cancel()
    player.wait_for_generation(pushed.generation, SWITCH_SECONDS)


def filter_alone(report: BrokerReport) -> None:
    """Measure the filter's time and that of adding, in a process on the broker's core."""
    _say("the filter alone")
    found = subprocess.run(
        pinned([sys.executable, "-m", "bench.broker.filter"], BROKER_CORE),
        stdout=subprocess.PIPE, check=True, text=True,
    )  # fmt: skip
    report.take_filter(json.loads(found.stdout))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
