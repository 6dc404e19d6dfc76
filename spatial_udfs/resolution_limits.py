"""What one resolution may cost, for callers that must not be held up by a single request."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from schemas.errors import DeadlineError, TooManyMembersError

# Gives the matrix of two geometries within some seconds, or raises DeadlineError.
Relate: TypeAlias = Callable[[Any, Any, float], str]


@dataclass(frozen=True, slots=True)
class ResolutionLimits:
    """Upper limits; None means none. They are checked between steps of bounded size.

    ``max_members`` counts the members of all stages, visible or not: that is what is computed
    and kept. ``deadline`` is a point of ``time.monotonic()``, so that waiting counts too.
    """

    deadline: float | None = None
    max_members: int | None = None
    # For a pair that may take longer than a step. None: it is related like any other.
    relate_apart: Relate | None = None

    @classmethod
    def within(
        cls,
        seconds: float,
        max_members: int | None = None,
        relate_apart: Relate | None = None,
    ) -> ResolutionLimits:
        """Limits whose clock starts now."""
        return cls(time.monotonic() + seconds, max_members, relate_apart)

    def seconds_left(self) -> float:
        """The time until the deadline, or -1 for ever, as a lock's timeout takes it."""
        return -1 if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def check_time(self) -> None:
        """Raise DeadlineError when the time is up."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise DeadlineError("the neighborhood could not be resolved in the time allowed")

    def check_members(self, count: int) -> None:
        """Raise TooManyMembersError when there are more than allowed."""
        if self.max_members is not None and count > self.max_members:
            raise TooManyMembersError(
                f"the neighborhood has more members than the {self.max_members} allowed"
            )


UNLIMITED = ResolutionLimits()
