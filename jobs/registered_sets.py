"""The registered subscriptions as a rebuild sees them: each distinct neighborhood once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from jobs.resolved_sets import Bools
from redis_link.client import RedisClient
from redis_link.registry import registered_subscriptions, registry_coverage
from redis_link.tally import Int64s
from schemas.descriptor_json import parse_descriptor
from schemas.errors import DescriptorError
from schemas.generation import RegistryCoverage
from schemas.neighborhood import Neighborhood
from schemas.registration import Registration


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
        """The number of distinct neighborhoods."""
        return len(self.hashes)

    def with_a_reference(self, existing: Int64s) -> Bools:
        """For each set, whether at least one of its references exists."""
        counts = [0 if each is None else len(each.refs) for each in self.neighborhoods]
        refs = [ref for each in self.neighborhoods if each is not None for ref in each.refs]
        found = np.isin(np.array(refs, np.int64), existing)
        owners = np.repeat(np.arange(len(counts)), counts)
        with_one: Bools = np.bincount(owners[found], minlength=len(counts)) > 0
        return with_one


def read_registered(client: RedisClient) -> RegisteredSets:
    """All registered subscriptions; what is registered meanwhile a broker adds by itself."""
    coverage = registry_coverage(client)
    return registered_sets(coverage, registered_subscriptions(client))


def registered_sets(
    coverage: RegistryCoverage, registered: Iterable[tuple[int, Registration]]
) -> RegisteredSets:
    """Group subscriptions by the hash of their neighborhood."""
    descriptors: dict[str, str] = {}
    sub_ids: list[int] = []
    hashes: list[str] = []
    for sub_id, entry in registered:
        # One above the number was registered after it was asked for, and is not promised.
        if sub_id <= coverage.up_to:
            descriptors.setdefault(entry.neighborhood_hash, entry.descriptor)
            sub_ids.append(sub_id)
            hashes.append(entry.neighborhood_hash)
    names = sorted(descriptors)
    numbers = {name: number for number, name in enumerate(names)}
    set_of = np.array([numbers[name] for name in hashes], np.int64)
    numbered = np.array(sub_ids, np.int64)
    order = np.lexsort((numbered, set_of))
    texts = tuple(descriptors[name] for name in names)
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


def _parsed(
    texts: Sequence[str],
) -> tuple[tuple[Neighborhood | None, ...], dict[int, str]]:
    neighborhoods: list[Neighborhood | None] = []
    faults: dict[int, str] = {}
    for number, text in enumerate(texts):
        try:
            neighborhoods.append(parse_descriptor(text))
        except DescriptorError as error:
            neighborhoods.append(None)
            faults[number] = str(error)
    return tuple(neighborhoods), faults
