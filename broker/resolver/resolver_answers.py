"""What the resolver is asked with and what it answers: limits, counts, members, refusals."""

from __future__ import annotations

from dataclasses import dataclass

from broker.codec.reason_codes import ReasonCode
from schemas.errors import SpapsError, WorldError
from spatial_udfs.entity_table import Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverLimits:
    """What one neighborhood may cost, and how many may wait at once; None: any number."""

    # From its turn on.
    seconds: float = 10.0
    # How long it waits for a process that starts again.
    away_seconds: float = 10.0
    # Of all stages, visible or not.
    members: int | None = 100_000
    # Of all clients together, and of one user name or address.
    waiting: int | None = 1_000
    waiting_of_owner: int | None = 250


@dataclass(slots=True)
class ResolverCounts:
    """Counted for metrics, over all versions."""

    resolved: int = 0
    reused: int = 0
    refused: int = 0
    # Refused because too many waited, and because the process had to be ended over them.
    crowded: int = 0
    late: int = 0
    # Asked again because the process ended, and processes that ended.
    asked_again: int = 0
    restarts: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class VersionResolution:
    """What a neighborhood holds on one world version (ascending, distinct).

    ``descriptor`` is JSON, also when the client wrote the compact notation.
    """

    version: int
    descriptor: str
    neighborhood_hash: str
    peids: Int64s
    warnings: tuple[str, ...] = ()
    # Of all stages, visible or not; what the limit of members counts.
    members_of_stages: int = 0


class NeighborhoodRefusedError(SpapsError):
    """A neighborhood that is not served; its text is what the client gets to read."""

    def __init__(
        self,
        reason: ReasonCode,
        text: str,
        *,
        lacks_references: bool = False,
        is_passing: bool = False,
    ) -> None:
        """Keep the reason code for the SUBACK, and whether no reference exists.

        ``is_passing``: the resolver did not answer, so the same may be answered later.
        """
        super().__init__(text)
        self.reason = reason
        self.lacks_references = lacks_references
        self.is_passing = is_passing


def away_error() -> NeighborhoodRefusedError:
    """Return the refusal of what nobody answers now."""
    return NeighborhoodRefusedError(
        ReasonCode.UNSPECIFIED_ERROR, "the resolver is starting again, try later", is_passing=True
    )


class ResolverGoneError(SpapsError):
    """The resolver process ended before it answered: another one may answer."""


class ResolverLostError(WorldError):
    """The resolver process ended while it loaded the world: another one may not."""


class ResolverLateError(SpapsError):
    """The resolver process was ended because of this request, which took too long."""
