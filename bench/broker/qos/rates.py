"""QoS 1 and 2 beside Mosquitto, without durability and with it, on one core.

Without: no store; Mosquitto without persistence. With: subscribers have sessions that outlive their
connections. Ours stores in Redis what is not acknowledged before it answers the publisher, and
Redis writes its file every second. Mosquitto has all in memory, and writes its file every 30
minutes and at its end (the default of ``autosave_interval``).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeAlias

from bench.broker.aims import (
    DURABLE,
    QOS_1_FAN_OUT,
    QOS_1_SINGLES,
    QOS_1_STREAM,
    QOS_2_STREAM,
)
from bench.broker.peers import mosquitto, ours
from bench.broker.qos.players import QosPlayer
from bench.broker.rate import Rate
from bench.broker.report import BrokerReport
from bench.broker.scene import FAN_OUT, ONE_MATCH, Scene
from redis_link.connection.embedded import EmbeddedRedis

BROKER_CORE: Final = 0
Settings: TypeAlias = tuple[tuple[str, Callable[[QosPlayer, int, float], Rate]], ...]
SCENES: Final[tuple[tuple[Scene, int, Settings], ...]] = (
    (ONE_MATCH, 1, ((QOS_1_STREAM, QosPlayer.stream), (QOS_1_SINGLES, QosPlayer.singles))),
    (FAN_OUT, 1, ((QOS_1_FAN_OUT, QosPlayer.fan_out),)),
    (ONE_MATCH, 2, ((QOS_2_STREAM, QosPlayer.stream),)),
)


def qos_rates(report: BrokerReport, repeats: int, seconds: float) -> None:
    """Measure the publishes a second, without and with durability."""
    for kept in (False, True):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spaps-bench-")))
            url = "none"
            if kept:
                url = stack.enter_context(EmbeddedRedis(folder / "redis")).url
            peer = stack.enter_context(mosquitto(BROKER_CORE, folder, persistent=kept))
            memory = stack.enter_context(ours("memory", BROKER_CORE, folder / "memory.log", url))
            report.versions = peer.version
            players = [QosPlayer(peer, kept=kept), QosPlayer(memory, near=True, kept=kept)]
            if not kept:
                none = stack.enter_context(ours("none", BROKER_CORE, folder / "none.log"))
                players.append(QosPlayer(none))
            _play(report, players, repeats, seconds, DURABLE if kept else "")


def _play(
    report: BrokerReport, players: list[QosPlayer], repeats: int, seconds: float, suffix: str
) -> None:
    for scene, qos, settings in SCENES:
        for player in players:
            player.subscribe(scene, qos)
        for name, run in settings:
            # The first round only warms up.
            for turn in range(repeats + 1):
                for player in players:
                    rate = run(player, qos, seconds)
                    if turn:
                        report.add(name + suffix, player.name, rate)
                        print(
                            f"{name}{suffix}, round {turn}: {player.name} "
                            f"{rate.per_second:,.0f} a second (broker {rate.broker_share:.0%}, "
                            f"generator {rate.generator_share:.0%})",
                            file=sys.stderr, flush=True,
                        )  # fmt: skip
        for player in players:
            player.leave()
