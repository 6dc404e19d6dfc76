"""Limits of the shell, in addition to those of the core; both are set in [broker.limits]."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, get_type_hints

from broker.access.logins import LoginLimits
from broker.core.limits import BrokerLimits
from broker.ports import LEASE_SECONDS, STUCK_SECONDS, JournalLimits
from broker.resolver.resolver_requests import ResolverLimits
from broker.shell.http_server import HttpLimits
from schemas.errors import Mistakes
from schemas.setting_values import build_table

# Files other than connections: listeners, Redis, the resolver, logs, the world.
RESERVED_FILES: Final = 64

Limits = TypeVar("Limits", BrokerLimits, "ShellLimits")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLimits:
    """Sizes are bytes, times are seconds."""

    # Of all listeners together.
    connections: int = 10_000
    connections_of_address: int = 5_000
    # Unread bytes from which a client counts as one that does not read.
    write_buffer_bytes: int = 1_048_576
    # Unread bytes of all clients together.
    output_bytes: int = 268_435_456
    # The health page warns when a certificate expires within this number of days.
    certificate_warning_days: float = 14.0
    # Visitors of the HTTP pages, and the time of one request.
    http_visitors: int = 64
    http_visitors_of_address: int = 16
    http_seconds: float = 5.0
    # Logins whose password waits to be checked, and wrong logins of one address in a minute.
    waiting_logins: int = 1_000
    waiting_logins_of_address: int = 20
    wrong_logins_of_address: int = 60
    # Log lines that clients cause in a minute, in all and of one address.
    log_lines: int = 6_000
    log_lines_of_address: int = 1_000
    resolve_seconds: float = 10.0
    # How long a start waits without an answer of the resolver before the broker listens.
    restore_seconds: float = 60.0
    # Members of all stages of one neighborhood, visible or not.
    neighborhood_members: int = 100_000
    # In all, and of one user name, or of one address for clients without a user name.
    waiting_neighborhoods: int = 1_000
    waiting_neighborhoods_of_owner: int = 250
    # The time for one answer of Redis, and for which acknowledgements wait for it in all.
    redis_answer_seconds: float = 2.0
    redis_patience_seconds: float = 5.0
    # Records that may wait for a step, and changes kept in memory while Redis is away.
    journal_records: int = 100_000
    journal_changes: int = 100_000
    # How long to wait for the lease of a broker that was killed on another machine.
    lease_seconds: float = LEASE_SECONDS
    # How long the event loop may be blocked before another broker of this name may take over.
    stuck_seconds: float = STUCK_SECONDS

    @property
    def resolver(self) -> ResolverLimits:
        """The limits of the live resolver."""
        return ResolverLimits(
            seconds=self.resolve_seconds,
            away_seconds=self.resolve_seconds,
            members=self.neighborhood_members,
            waiting=self.waiting_neighborhoods,
            waiting_of_owner=self.waiting_neighborhoods_of_owner,
        )

    @property
    def http(self) -> HttpLimits:
        """The limits of the HTTP pages."""
        return HttpLimits(
            visitors=self.http_visitors,
            visitors_of_address=self.http_visitors_of_address,
            seconds=self.http_seconds,
        )

    @property
    def logins(self) -> LoginLimits:
        """The limits of logins."""
        return LoginLimits(
            waiting=self.waiting_logins,
            waiting_of_address=self.waiting_logins_of_address,
            wrong_of_address=self.wrong_logins_of_address,
        )

    @property
    def journal(self) -> JournalLimits:
        """The limits of the journal in Redis."""
        return JournalLimits(
            answer_seconds=self.redis_answer_seconds,
            patience_seconds=self.redis_patience_seconds,
            waiting_records=self.journal_records,
            waiting_changes=self.journal_changes,
            lease_seconds=self.lease_seconds,
            stuck_seconds=self.stuck_seconds,
        )


class ConnectionQuota:
    """Counts connections, in all and by address."""

    def __init__(self, limits: ShellLimits) -> None:
        self._limits = limits
        self._of_host: Counter[str | None] = Counter()
        self._count = 0
        # Refused connections, by the limit that was reached.
        self.refused: Counter[str] = Counter()

    def add(self, host: str | None) -> str | None:
        """Count a connection; return the limit that refuses it, or None."""
        cause = None
        if self._count >= self._limits.connections:
            cause = "too_many"
        elif self._of_host[host] >= self._limits.connections_of_address:
            cause = "too_many_of_address"
        if cause is not None:
            self.refused[cause] += 1
            return cause
        self._of_host[host] += 1
        self._count += 1
        return None

    def remove(self, host: str | None) -> None:
        """Remove a connection from the count."""
        self._count -= 1
        self._of_host[host] -= 1
        if not self._of_host[host]:
            del self._of_host[host]


def read_limits(table: Mapping[str, Any]) -> tuple[BrokerLimits, ShellLimits]:
    """Return the limits in [broker.limits]; an error names the key."""
    mistakes = Mistakes(
        f"broker.limits.{name} must not be below 0, not {value}"
        for name, value in table.items()
        if isinstance(value, int | float) and value < 0
    )
    with mistakes.noted():
        core = _part(BrokerLimits, table)
    with mistakes.noted():
        shell = _part(ShellLimits, table)
    mistakes.check()
    return core, shell


def _part(kind: type[Limits], table: Mapping[str, Any]) -> Limits:
    names = get_type_hints(kind)
    own = {name: value for name, value in table.items() if name in names}
    return build_table(kind, own, "broker.limits.")


def use_all_files(connections: int) -> int:
    """Raise the limit on open files as far as allowed; return the connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return connections
    return min(connections, max(1, soft - RESERVED_FILES))
