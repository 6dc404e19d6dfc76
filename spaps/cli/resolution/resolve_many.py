"""A file of subscriptions resolved one after the other, without Spark."""

from __future__ import annotations

import time
from pathlib import Path

from rich.markup import escape

from schemas.errors import NoReferenceError, NothingResolvedError
from spaps.cli.printable_text import printable
from spaps.cli.resolution.membership_file import MembershipFile
from spaps.cli.subscription_file import Unresolved, read_subscriptions
from spaps.cli.terminal import PhaseProgress, remarks, results
from spatial_udfs.exact.exact_resolver import ExactResolver
from world.snapshot import load_snapshot


def resolve_many(subscriptions: Path, out: Path, world: str, version: int | None) -> None:
    """Write the memberships of all that can be resolved, and list the others."""
    started = time.perf_counter()
    good, unresolved = read_subscriptions(subscriptions)
    with PhaseProgress() as progress:
        progress("loading the world", 0, None)
        table = load_snapshot(world, version)
        resolver = ExactResolver(table)
        resolved = 0
        with MembershipFile(out) as memberships:
            for done, subscription in enumerate(good):
                progress("resolving", done, len(good))
                try:
                    resolution = resolver.resolve(subscription.neighborhood)
                except NoReferenceError as error:
                    unresolved.append(Unresolved(f"subId {subscription.sub_id}", str(error)))
                    continue
                memberships.add(subscription.sub_id, resolution)
                resolved += 1
            if not resolved:
                raise NothingResolvedError(_nothing(subscriptions, unresolved, table.version))
    for entry in unresolved:
        reason = escape(printable(entry.reason))
        remarks().print(f"[yellow]unresolved:[/] {entry.where}: {reason}", soft_wrap=True)
    results().print(
        f"{resolved:,} of {resolved + len(unresolved):,} subscriptions resolved on world version "
        f"{table.version}: {memberships.rows:,} rows in {escape(printable(str(out)))}, "
        f"{time.perf_counter() - started:.1f} s",
        soft_wrap=True,
    )


def _nothing(subscriptions: Path, unresolved: list[Unresolved], version: int) -> str:
    if not unresolved:
        return f"{subscriptions}: there is no subscription in it, and nothing was written"
    [first, *_] = unresolved
    return (
        f"{subscriptions}: none of the {len(unresolved):,} subscriptions could be resolved on "
        f"world version {version}, and nothing was written; such as {first.where}: {first.reason}"
    )
