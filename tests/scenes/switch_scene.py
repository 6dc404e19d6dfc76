"""Rebuilds under a running broker, with clients that know what they should hear."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from rebuild import resolve as rebuild_resolve
from schemas.errors import NoReferenceError
from schemas.language.notation import read_neighborhood
from spaps.client.message import Message, NeighborhoodChange
from spaps.client.spatial_client import SpatialClient
from spatial_udfs.exact.exact_resolver import ExactResolver
from tests.scenes.rebuild_scene import RebuildScene, grid_town
from tests.servers.killable_broker import killable_broker
from tests.servers.running_broker import PATIENCE
from world.snapshot import load_snapshot

ROADS_OF_1, ROADS_OF_2 = "({1},{road/#},C)", "({2},{road/#},C)"
Town = dict[int, tuple[list[str], Any]]


def swapped_town() -> Town:
    """Zones 1 and 2 change places: whatever one of them held, the other holds now."""
    town = grid_town()
    town[1], town[2] = town[2], town[1]
    return town


def peids_of(town: Mapping[int, Any]) -> list[int]:
    """The roads, which is what messages are about."""
    return [peid for peid, (categories, _) in town.items() if categories[0].startswith("road")]


def members(scene: RebuildScene, version: int, notation: str) -> set[int]:
    """By the exact resolver; none when no reference exists."""
    resolver = ExactResolver(load_snapshot(scene.places.world, version))
    try:
        return set(resolver.resolve(read_neighborhood(notation)).peids().tolist())
    except NoReferenceError:
        return set()


@contextmanager
def broker_on(
    scene: RebuildScene, mode: str = "memory", *arguments: str
) -> Iterator[tuple[int, Any]]:
    """A broker process on the scene's world and Redis: its port and process."""
    with killable_broker(
        scene.folder,
        *("--world", scene.places.world, "--redis", scene.redis_url, "--memberships", mode),
        *arguments,
    ) as running:
        yield running


class Listener:
    """A client with a session, its messages, and what it was told of its neighborhoods."""

    def __init__(self, port: int, client_id: str, *, resumes: bool = False) -> None:
        self.messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.changes: queue.SimpleQueue[NeighborhoodChange] = queue.SimpleQueue()
        self.client = SpatialClient(
            "127.0.0.1",
            port,
            client_id=client_id,
            session_expiry=3_600,
            clean_start=not resumes,
            on_message=self.messages.put,
            on_neighborhood_change=self.changes.put,
        )
        self.client.connect(PATIENCE)
        self._client_id = client_id
        self._rounds = 0

    def next_changes(self, count: int) -> list[NeighborhoodChange]:
        return [self.changes.get(timeout=PATIENCE) for _ in range(count)]

    def wait_for_world(self, version: int) -> dict[str, Any]:
        """Until the broker says that it is on this version; what it says."""
        self.client.subscribe_topic("$SYS/broker/world", qos=1)
        while True:
            message = self.messages.get(timeout=PATIENCE)
            if message.topic == "$SYS/broker/world":
                world: dict[str, Any] = json.loads(message.payload)
                if world["version"] == version:
                    return world

    def hears(self, peids: Iterable[int]) -> dict[int, set[int]]:
        """The nsids that a message about each of these leads to; those with none are left out."""
        self._rounds += 1
        end = f"end/{self._client_id}/{self._rounds}"
        self.client.subscribe_topic(end, qos=1)
        for peid in peids:
            self.client.publish("news/x", str(peid), peid=peid, qos=1)
        self.client.publish(end, b"", qos=1)
        heard: dict[int, set[int]] = {}
        while (message := self.messages.get(timeout=PATIENCE)).topic != end:
            if message.topic == "news/x":
                heard.setdefault(int(message.payload), set()).update(message.nsids)
        return heard

    def close(self) -> None:
        self.client.close()


def expected(
    scene: RebuildScene, version: int, held: Mapping[int, str], peids: Iterable[int]
) -> dict[int, set[int]]:
    """What ``hears`` gives when the broker filters by this version."""
    wanted = set(peids)
    found: dict[int, set[int]] = {}
    for nsid, notation in held.items():
        for peid in members(scene, version, notation) & wanted:
            found.setdefault(peid, set()).add(nsid)
    return found


@contextmanager
def between_reading_and_switch(action: Callable[[], None]) -> Iterator[None]:
    """Have something happen after a rebuild has read the registry, and before it switches."""
    write = rebuild_resolve.write_memberships  # type: ignore[attr-defined]  # imported there

    def write_and_act(*arguments: Any, **options: Any) -> Any:
        action()
        return write(*arguments, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("rebuild.resolve.write_memberships", write_and_act)
        yield
