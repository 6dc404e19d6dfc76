"""The exact resolver: one neighborhood on one world version, in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from shapely.errors import GEOSException

from schemas.errors import NoReferenceError, WorldError
from schemas.language.explain import neighborhood_warnings
from schemas.language.neighborhood import Neighborhood, WrittenStage
from schemas.language.world_warnings import (
    missing_warning,
    missing_words,
    no_reference,
    pattern_warnings,
)
from spatial_udfs.entity_keys import NamedPositions, bound_to
from spatial_udfs.entity_table import CategoryMasks, EntityTable, Geometries, Int64s, Positions
from spatial_udfs.exact.place_members import PlaceMembers
from spatial_udfs.exact.stage_findings import StageFinding, stage_findings
from spatial_udfs.exact.stage_members import OpenEntities, StageMembers
from spatial_udfs.place_geometries import check_places, projected_places
from spatial_udfs.position_sets import difference, union
from spatial_udfs.resolution_limits import UNLIMITED, ResolutionLimits
from spatial_udfs.topology.shapes import shape_codes


@dataclass(frozen=True, slots=True, eq=False)
class Resolution:
    """Members by stage (``stages[0]`` is stage 1), each an ascending array of peids."""

    version: int
    stages: tuple[Int64s, ...]
    visible: tuple[bool, ...]
    missing_refs: tuple[int, ...] = ()
    # Places that the CRS of the version cannot hold.
    missing_places: tuple[str, ...] = ()

    def rows(self) -> tuple[Int64s, NDArray[np.int32]]:
        """Return the membership rows (peid, stageNo) of the visible stages, in stage order."""
        shown = [(n, s) for n, s in enumerate(self.stages, start=1) if self.visible[n - 1]]
        peids = np.concatenate([members for _, members in shown])
        numbers = [np.full(len(members), number, np.int32) for number, members in shown]
        return peids, np.concatenate(numbers)

    def peids(self) -> Int64s:
        """Return the distinct visible peids, ascending: what a broker filters by."""
        return np.unique(self.rows()[0])


# 600 MB at most; a city of 225,000 entities takes 13 MB of it.
DEFAULT_MAX_PAIRS: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class ResolverMemory:
    """What a resolver remembers at the moment."""

    entities: int
    rows: int
    pairs: int
    pair_bytes: int
    category_mask_bytes: int
    prepared_coordinates: int


class ExactResolver:
    """Resolves neighborhoods; any number of threads may do so at the same time."""

    def __init__(self, table: EntityTable, max_pairs: int = DEFAULT_MAX_PAIRS) -> None:
        """Index the world version; ``max_pairs`` bounds the memory of pairs."""
        self._table = table
        self._masks = CategoryMasks(table)
        shapes = shape_codes(table)
        self._stages = StageMembers(table.geometries, shapes, max_pairs)
        self._places = PlaceMembers(table.geometries, shapes, self._stages.search, max_pairs)

    def resolve(
        self, neighborhood: Neighborhood, limits: ResolutionLimits = UNLIMITED
    ) -> Resolution:
        """Return the members of every stage; errors: NoReferenceError, ResolutionLimitError."""
        table = self._table
        if neighborhood.keys or neighborhood.names:
            raise ValueError("references by key and by name are replaced by peids before")
        check_places(neighborhood)
        references, missing = table.positions_of(np.array(neighborhood.refs, np.int64))
        places, missing_places = projected_places(neighborhood.places, table.srid)
        if not len(references) and not len(places):
            raise no_reference(neighborhood, table.version)
        members = [references]
        stages = neighborhood.written_out()
        total = 0
        for stage in stages:
            try:
                members.append(self._members(stage, stages, members, places, limits))
            except GEOSException as error:
                raise WorldError(f"geometry that cannot be related: {error}") from error
            total += len(members[-1])
            limits.check_members(total)
        return Resolution(
            version=table.version,
            stages=tuple(table.peids[found] for found in members[1:]),
            visible=neighborhood.visible,
            missing_refs=tuple(missing.tolist()),
            missing_places=missing_places,
        )

    @property
    def version(self) -> int:
        """The world version."""
        return self._table.version

    def unmatched_patterns(self, neighborhood: Neighborhood) -> tuple[str, ...]:
        """Return the category patterns of the stages that no category of the world matches."""
        patterns = dict.fromkeys(one for stage in neighborhood.stages for one in stage.categories)
        return tuple(one for one in patterns if not self._masks.matches_category(one))

    def findings(
        self, neighborhood: Neighborhood, peid: int, limits: ResolutionLimits = UNLIMITED
    ) -> tuple[StageFinding, ...]:
        """Return what each stage has to do with an entity; errors as ``resolve``."""
        members = self.resolve(neighborhood, limits).stages
        return stage_findings(self._table, self._masks, neighborhood, members, peid, limits)

    def warm_up(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Compute all pairs ahead; True when done. For a thread in the background."""
        return self._stages.related.warm_up(stop)

    def forget(self) -> None:
        """Drop all remembered pairs and give their memory back."""
        self._stages.related.forget()

    def memory(self) -> ResolverMemory:
        """Return what is remembered at the moment."""
        related = self._stages.related
        return ResolverMemory(
            entities=len(self._table),
            rows=related.memory.rows,
            pairs=related.memory.pairs,
            pair_bytes=related.memory.nbytes(),
            category_mask_bytes=self._masks.nbytes(),
            prepared_coordinates=related.prepared_coordinates(),
        )

    def _members(
        self,
        stage: WrittenStage,
        stages: tuple[WrittenStage, ...],
        members: list[Positions],
        places: Geometries,
        limits: ResolutionLimits,
    ) -> Positions:
        references = union([members[number] for number in stage.ref_stages])
        fresh = references
        for earlier in stages[: stage.number - 1]:
            if _repeats(stage, earlier):
                spent = union([members[number] for number in earlier.ref_stages])
                fresh = difference(fresh, spent)
        candidates = OpenEntities(self._masks.of(stage.categories), references)
        selected = self._stages.select(stage.condition, candidates, fresh, limits)
        if stage.number > 1 or not len(places):
            return selected
        candidates.close(selected)
        return union([selected, self._places.select(stage.condition, candidates, places, limits)])


def _repeats(stage: WrittenStage, earlier: WrittenStage) -> bool:
    """Return whether the references of ``earlier`` can give nothing new in ``stage``.

    All that they are tied to was found in ``earlier`` or was a reference there. When those
    members and references are all references now, they are excluded from ``stage``.
    """
    return (
        earlier.condition == stage.condition
        and set(earlier.categories) == set(stage.categories)
        and earlier.number in stage.ref_stages
        and set(earlier.ref_stages) <= set(stage.ref_stages)
    )


class NamedResolution(NamedTuple):
    """What was resolved: the neighborhood has peids in place of keys and names.

    ``missing`` are the references that the version does not have, for a person.
    """

    neighborhood: Neighborhood
    resolution: Resolution
    missing: tuple[int | str, ...]

    def warnings(self, resolver: ExactResolver, table: EntityTable) -> list[str]:
        """Return what a person should know: stages and patterns without effect, what is missing."""
        unmatched = resolver.unmatched_patterns(self.neighborhood)
        found = [
            *neighborhood_warnings(self.neighborhood),
            *pattern_warnings(self.neighborhood, unmatched, table.version, table.category_names),
        ]
        if self.missing:
            found.append(missing_warning(self.missing, table.version))
        return found


def resolve_named(
    resolver: ExactResolver,
    table: EntityTable,
    neighborhood: Neighborhood,
    known: NamedPositions | None = None,
) -> NamedResolution:
    """Return the members on the version that ``table`` is; ``resolver`` works on the same.

    ``known`` are the keys and names of several neighborhoods, for one of many.
    """
    bound, unknown = bound_to(neighborhood, table, known)
    try:
        resolution = resolver.resolve(bound)
    except NoReferenceError:
        raise no_reference(neighborhood, table.version) from None
    missing = unknown._replace(peids=resolution.missing_refs, places=resolution.missing_places)
    return NamedResolution(bound, resolution, missing_words(missing))
