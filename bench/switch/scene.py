"""A broker with very many restored subscriptions, and generations that it can be switched to."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from broker.core.journal import Record, SessionSaved, SubscriptionSaved
from broker.core.subscribe.subscription import SubscriptionTerms
from broker.durability.redis_journal import RedisJournal
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_push import PushSource
from redis_link.generation.generation_store import SubscriptionChanges, keep_changes
from redis_link.generation.local_push import push_pairs
from redis_link.generation.sweep import Retention
from redis_link.sets.pair_arrays import Int64s
from schemas import redis_keys
from schemas.generation import RegistryCoverage
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.neighborhood import neighborhood_hash
from schemas.subscription import Registration

BROKER: Final = "broker"
LOG: Final = "broker.log"
NOTICED_AT_LAST: Final = 30.0
REGISTRY: Final = "bench"
IN_SESSION: Final = 500
AT_ONCE: Final = 5_000
# All stay, so that the measurement can go from one to the other.
KEPT: Final = Retention(grace_seconds=86_400)
# Of each subscription's members, so many are others in the other generation.
CHANGED_SHARE: Final = 0.1


@dataclass(frozen=True)
class Sizes:
    """How much there is of everything."""

    subscriptions: int
    members: int


def write_subscriptions(client: RedisClient, url: str, peids: Int64s, sizes: Sizes) -> None:
    """Write registrations, and sessions that are away in the journal, as a broker leaves them."""
    client.set(redis_keys.registry_id_key(), REGISTRY)
    client.set(redis_keys.last_sub_id_key(), sizes.subscriptions)
    records: list[list[Record]] = []
    entries: dict[str, str] = {}
    for number in range(sizes.subscriptions):
        session, nsid, sub_id = number // IN_SESSION, number % IN_SESSION + 1, number + 1
        client_id = f"away-{session}"
        if nsid == 1:
            records.append([SessionSaved(client_id, None, 86_400, None, None)])
        text = json.dumps(
            {"refs": [int(peids[number % len(peids)])], "stages": [{"cats": ["#"], "cond": "T"}]}
        )
        terms = SubscriptionTerms(
            topic_filter="away/#", qos=0, nsid=nsid, sub_id=sub_id, descriptor=text
        )
        records[-1].append(SubscriptionSaved(client_id, terms))
        digest = neighborhood_hash(parse_descriptor(text))
        entry = Registration(client_id, nsid, "away/#", text, digest, BROKER)
        entries[str(sub_id)] = entry.to_json()
        if len(entries) >= AT_ONCE or sub_id == sizes.subscriptions:
            client.hset(redis_keys.subscriptions_key(), mapping=entries)
            entries = {}
    asyncio.run(_save(url, records))


async def _save(url: str, records: list[list[Record]]) -> None:
    journal = RedisJournal(url, BROKER)
    await journal.load()
    for part in records:
        await journal.save(part)
    await journal.close()


def push_generation(
    client: RedisClient, peids: Int64s, sizes: Sizes, *, version: int, seed: int
) -> int:
    """Push as many members for each subscription; a tenth of them depend on the seed."""
    sub_ids = np.repeat(np.arange(1, sizes.subscriptions + 1), sizes.members)
    places = np.arange(sizes.members)
    starts = np.arange(sizes.subscriptions) * 7
    changed = int(sizes.members * CHANGED_SHARE)
    at = (starts[:, None] + places[None, :]).astype(np.int64)
    at[:, :changed] += sizes.members * (1 + seed)
    members = peids[at.reshape(-1) % len(peids)]
    source = PushSource(version, "bench.switch", RegistryCoverage(REGISTRY, sizes.subscriptions))
    counts = np.full(sizes.subscriptions, changed if sizes.members else 0, np.int64)
    said = SubscriptionChanges(
        np.arange(1, sizes.subscriptions + 1), counts, counts,
        np.zeros(sizes.subscriptions, np.bool_),
    )  # fmt: skip
    report = push_pairs(
        client, source, [(members, sub_ids)] if sizes.members else [], retention=KEPT,
        before_switch=lambda generation: keep_changes(client, generation, said),
    )  # fmt: skip
    if report.cleanup is not None:
        report.cleanup.cancel()
    return report.generation


def point_to(client: RedisClient, generation: int, *, with_notice: bool = True) -> None:
    """Set the pointer as the last step of a push does, and send a notice, unless that is lost."""
    client.set(redis_keys.current_generation_key(), generation)
    if with_notice:
        client.publish(redis_keys.GENERATION_CHANNEL, "{}")


def seconds_to_notice(
    client: RedisClient, folder: Path, generation: int, *, with_notice: bool
) -> float:
    """Point to a generation; return how long until the broker's log says that it has noticed."""
    said = f"generation {generation} noticed".encode()
    with (folder / LOG).open("rb") as log:
        log.seek(0, 2)
        start, text = time.perf_counter(), b""
        point_to(client, generation, with_notice=with_notice)
        while said not in text:
            if time.perf_counter() - start > NOTICED_AT_LAST:
                raise SystemExit(f"generation {generation} was not noticed")
            time.sleep(0.001)
            text += log.read()
    return time.perf_counter() - start


@contextmanager
def running_broker(folder: Path, world: str, url: str) -> Iterator[tuple[int, int]]:
    """Run ``spaps broker`` as people start it; yield its port and process id."""
    command = [
        sys.executable, "-c", "from spaps.cli.command_line import main; main()", "broker",
        "--world", world, "--redis", url, "--listen", "127.0.0.1:0", "--allow-anonymous",
    ]  # fmt: skip
    with (folder / LOG).open("w") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder
        )
    assert process.stdout is not None
    try:
        ready = process.stdout.readline()
        found = re.search(r":(\d+) \(default\)", ready)
        if found is None:
            raise SystemExit((folder / LOG).read_text())
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        process.wait()
