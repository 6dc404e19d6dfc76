"""Access rules that a test sets, answered at once or later."""

from __future__ import annotations

from broker.codec.reason_codes import ReasonCode
from broker.core.verdicts import Action, Identity

EXPIRY = b"\x11\x00\x00\x0e\x10"


class Rules:
    """Denies what is in ``denied`` and counts how often it is asked; may answer later."""

    def __init__(self) -> None:
        self.denied: set[tuple[Action, str]] = set()
        self.asked: list[tuple[Action, str]] = []
        self.is_slow = False

    def decide(self, topic: str, action: Action) -> ReasonCode:
        return ReasonCode.NOT_AUTHORIZED if (action, topic) in self.denied else ReasonCode.SUCCESS

    def verdict(self, client: Identity, topic: str, action: Action) -> ReasonCode | None:
        assert client.client_id
        self.asked.append((action, topic))
        return None if self.is_slow else self.decide(topic, action)
