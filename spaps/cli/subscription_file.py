"""Subscription files (JSON lines): good lines come back, bad ones are listed with their reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schemas.errors import SourceError, SpapsError
from schemas.subscription import Subscription, parse_subscription


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A subscription that gives no rows, and why; ``where`` is its line or its number."""

    where: str
    reason: str


def read_subscriptions(path: Path) -> tuple[list[Subscription], list[Unresolved]]:
    """All subscriptions of the file in its order. A number used twice counts where it is first."""
    good: dict[int, Subscription] = {}
    bad: list[Unresolved] = []
    try:
        # Not splitlines(): JSON strings may hold other characters that it takes for line ends.
        lines = path.read_text("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: not UTF-8 text (byte {error.start})") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            subscription = parse_subscription(line)
        except SpapsError as error:
            bad.append(Unresolved(f"line {number}", str(error)))
            continue
        if subscription.sub_id in good:
            bad.append(Unresolved(f"line {number}", f"subId {subscription.sub_id} came before"))
        else:
            good[subscription.sub_id] = subscription
    return list(good.values()), bad
