"""The entities that a stage may still select: of its categories, no references, not yet found."""

from __future__ import annotations

from typing import Final

from spatial_udfs.entity_table import Positions
from spatial_udfs.position_sets import is_in
from spatial_udfs.topology.pair_kinds import Bools

# Up to so many references are looked up; beyond that a mask of the whole world is quicker.
FEW_REFERENCES: Final = 512


class OpenEntities:
    """A mask that is copied only when that pays: most stages are done after one small step."""

    def __init__(self, of_categories: Bools, references: Positions) -> None:
        """The entities of the stage's categories (not to be written to), less its references."""
        self._of_categories = of_categories
        self._references = references
        self._own: Bools | None = None
        self._found: list[Positions] = []

    def among(self, entities: Positions) -> Bools:
        """Which of these are open."""
        if self._own is not None or self._found or len(self._references) > FEW_REFERENCES:
            return self.mask()[entities]
        return self._of_categories[entities] & ~is_in(entities, self._references)

    def close(self, selected: Positions) -> None:
        """Take out what has been selected: no further pair of it has to be looked at."""
        self._found.append(selected)

    def mask(self) -> Bools:
        """All open entities of the world."""
        if self._own is None:
            self._own = self._of_categories.copy()
            self._own[self._references] = False
        for selected in self._found:
            self._own[selected] = False
        self._found.clear()
        return self._own
