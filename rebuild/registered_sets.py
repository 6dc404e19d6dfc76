"""Reads the registered subscriptions, and groups them by distinct neighborhood."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from redis_link.connection.client import RedisClient
from redis_link.registry.registry_reader import (
    registered_numbers,
    registered_subscriptions,
    registrations_of,
    registry_coverage,
)
from redis_link.sets.pair_arrays import Int64s
from schemas.errors import DescriptorError
from schemas.generation import RegistryCoverage
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.neighborhood import Neighborhood
from schemas.subscription import Registration
from spatial_udfs.entity_table import Bools
from spatial_udfs.place_geometries import projected_places
from world.memberships.resolved_sets import ResolvedSets


@dataclass(frozen=True, slots=True, eq=False)
class RegisteredSets:
    """Set ``i`` is the neighborhood with ``hashes[i]``; ``set_of[k]`` is that of ``sub_ids[k]``.

    Subscriptions stand in the order of their sets. ``neighborhoods[i]`` is None where this
    release cannot read the descriptor; ``faults`` says why.
    """

    coverage: RegistryCoverage
    hashes: tuple[str, ...]
    neighborhoods: tuple[Neighborhood | None, ...]
    descriptors: tuple[str, ...]
    sub_ids: Int64s
    set_of: Int64s
    faults: dict[int, str]

    def __len__(self) -> int:
        """Return the number of distinct neighborhoods."""
        return len(self.hashes)

    def with_a_reference(self, existing: Int64s, srid: int) -> Bools:
        """Return for each set whether at least one of its references exists.

        ``existing`` are the peids of a version, and ``srid`` is its CRS.
        """
        counts = [0 if each is None else len(each.refs) for each in self.neighborhoods]
        refs = [ref for each in self.neighborhoods if each is not None for ref in each.refs]
        found = np.isin(np.array(refs, np.int64), existing)
        owners = np.repeat(np.arange(len(counts)), counts)
        with_one: Bools = np.bincount(owners[found], minlength=len(counts)) > 0
        for number, each in enumerate(self.neighborhoods):
            if each is not None and each.places and not with_one[number]:
                with_one[number] = len(projected_places(each.places, srid)[0]) > 0
        return with_one


@dataclass(frozen=True, slots=True, eq=False)
class KnownSubscriptions:
    """The subscriptions that an earlier rebuild read, and their registry."""

    registry: str
    result: ResolvedSets


def read_registered(client: RedisClient, known: KnownSubscriptions | None = None) -> RegisteredSets:
    """Return all registered subscriptions; a broker adds those that come meanwhile.

    Of known subscriptions only the subIds are read: a registration never changes.
    """
    coverage = registry_coverage(client)
    if known is None or known.registry != coverage.registry:
        return registered_sets(coverage, registered_subscriptions(client))
    numbers = np.fromiter(registered_numbers(client), np.int64)
    result = known.result
    stays = np.isin(result.sub_ids, numbers)
    unread = np.setdiff1d(numbers[numbers <= coverage.up_to], result.sub_ids, assume_unique=True)
    fresh = _Entries()
    fresh.read(registrations_of(client, unread.tolist()), coverage)
    set_of = result.set_of[stays]
    descriptors = {
        result.hashes[number]: result.descriptors[number] for number in np.unique(set_of).tolist()
    }
    hashes = np.array([*result.hashes, ""], object)[set_of].tolist()
    entries = _Entries(
        fresh.descriptors | descriptors, [*fresh.sub_ids, *result.sub_ids[stays].tolist()],
        [*fresh.hashes, *hashes],
    )  # fmt: skip
    return entries.grouped(coverage)


def registered_sets(
    coverage: RegistryCoverage, registered: Iterable[tuple[int, Registration]]
) -> RegisteredSets:
    """Group subscriptions by the hash of their neighborhood."""
    entries = _Entries()
    entries.read(registered, coverage)
    return entries.grouped(coverage)


@dataclass(frozen=True, slots=True)
class _Entries:
    """Subscriptions in the order of reading, and the descriptors by their hash."""

    descriptors: dict[str, str] = field(default_factory=dict)
    sub_ids: list[int] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)

    def read(
        self, registered: Iterable[tuple[int, Registration]], coverage: RegistryCoverage
    ) -> None:
        for sub_id, entry in registered:
            # A higher subId was registered after the coverage was read, and is not covered.
            if sub_id <= coverage.up_to:
                self.descriptors.setdefault(entry.neighborhood_hash, entry.descriptor)
                self.sub_ids.append(sub_id)
                self.hashes.append(entry.neighborhood_hash)

    def grouped(self, coverage: RegistryCoverage) -> RegisteredSets:
        names = sorted(self.descriptors)
        numbers = {name: number for number, name in enumerate(names)}
        set_of = np.array([numbers[name] for name in self.hashes], np.int64)
        numbered = np.array(self.sub_ids, np.int64)
        order = np.lexsort((numbered, set_of))
        texts = tuple(self.descriptors[name] for name in names)
        neighborhoods, faults = _parsed(texts)
        return RegisteredSets(
            coverage=coverage,
            hashes=tuple(names),
            neighborhoods=neighborhoods,
            descriptors=texts,
            sub_ids=numbered[order],
            set_of=set_of[order],
            faults=faults,
        )


def _bound(neighborhood: Neighborhood) -> Neighborhood:
    """Return the neighborhood; brokers replace keys and names before they register it."""
    if neighborhood.keys or neighborhood.names:
        raise DescriptorError("a reference by key or by name was registered without its peid", 1)
    return neighborhood


def _parsed(
    texts: Sequence[str],
) -> tuple[tuple[Neighborhood | None, ...], dict[int, str]]:
    neighborhoods: list[Neighborhood | None] = []
    faults: dict[int, str] = {}
    for number, text in enumerate(texts):
        try:
            neighborhoods.append(_bound(parse_descriptor(text)))
        except DescriptorError as error:
            neighborhoods.append(None)
            faults[number] = str(error)
    return tuple(neighborhoods), faults
