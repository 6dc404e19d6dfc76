"""The checker: for each message, who had to get it, and whether exactly those did.

It knows both worlds of every switch, when each was in force in the broker, and what each client
had asked for by when. Where two things may have happened in either order it accepts either
outcome, but one and the same for all subscribers of a message: never a mix of generations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.soak.ground import Ground
from tests.soak.message_rules import Holding, copy_problems, holdings_of
from tests.soak.records import (
    NO_SUBSCRIBER,
    PLAIN_NSID,
    REFUSED_FROM,
    Change,
    Received,
    Records,
    Sent,
    versions_possible,
)


@dataclass(frozen=True)
class Finding:
    """Something that must not be: its kind, and everything needed to follow it up."""

    kind: str
    text: str


@dataclass
class Verdict:
    """What the checker has to say."""

    findings: list[Finding] = field(default_factory=list)
    messages: int = 0
    # Pairs of message and client: surely owed, and got at all.
    owed: int = 0
    delivered: int = 0
    # Messages for which both generations of a switch were possible; retransmitted; refused.
    near_switches: int = 0
    sent_again: int = 0
    refused: int = 0
    repeated_copies: int = 0

    def kinds(self) -> set[str]:
        """The kinds of findings."""
        return {one.kind for one in self.findings}


Got = dict[str, list[Received]]
# The nsids that a client must be told, and those that it may be.
Expected = tuple[set[int], set[int]]


class Checker:
    """Judges one run."""

    def __init__(self, ground: Ground, records: Records) -> None:
        self._ground = ground
        self._records = records
        self._holdings = holdings_of(records.changes)
        self._by_client: dict[str, list[Holding]] = defaultdict(list)
        for (client, _), holding in self._holdings.items():
            self._by_client[client].append(holding)
        self._verdict = Verdict()

    def judge(self) -> Verdict:
        """All messages, all copies, all answers."""
        got: dict[str, Got] = defaultdict(lambda: defaultdict(list))
        for copy in self._records.received:
            got[copy.name][copy.client].append(copy)
        for name in got.keys() - self._records.sent.keys():
            self._find("unknown", f"{name} came and was never sent")
        for message in self._records.sent.values():
            if message.sends:
                self._judge_message(message, got.get(message.name, {}))
        self._verdict.repeated_copies = sum(
            len(copies) - 1 for of_message in got.values() for copies in of_message.values()
        )
        for kind, text in copy_problems(self._records):
            self._find(kind, text)
        for change in self._records.changes:
            self._judge_change(change)
        self._judge_surroundings()
        return self._verdict

    def _judge_surroundings(self) -> None:
        for event in self._records.events:
            if event.kind == "rebuild failed":
                self._find("rebuild", event.text)
        for back in self._records.reconnects:
            if not back.session_present:
                self._find("session lost", f"{back.client} at {back.at:.3f}")

    def _find(self, kind: str, text: str) -> None:
        self._verdict.findings.append(Finding(kind, text))

    # --- one message

    def _judge_message(self, message: Sent, got: Got) -> None:
        verdict = self._verdict
        verdict.messages += 1
        verdict.delivered += len(got)
        if message.acknowledged is None:
            self._find("unanswered", f"{message} was never acknowledged")
            return
        for copies in got.values():
            for copy in copies:
                if (copy.topic, copy.peid) != (message.topic, message.peid):
                    self._find("altered", f"{copy} of {message}")
        if message.code >= REFUSED_FROM:
            verdict.refused += 1
            if not self._records.during("redis away", message.sends[0], message.acknowledged):
                self._find("refused", f"{message} while Redis was there")
            if got and len(message.sends) == 1:
                self._find("wrong", f"{message} was refused, and came to {', '.join(got)}")
            return
        if message.code == NO_SUBSCRIBER and got and len(message.sends) == 1:
            self._find("wrong", f"{message} had no subscriber, and came to {', '.join(got)}")
        versions = versions_possible(
            self._records.in_broker, self._records.versions, message.sends[0], message.acknowledged
        )
        verdict.near_switches += len(set(versions)) > 1
        verdict.sent_again += len(message.sends) > 1
        self._judge_deliveries(message, got, list(dict.fromkeys(versions)))

    def _judge_deliveries(self, message: Sent, got: Got, versions: Sequence[int]) -> None:
        """Right if there is one version by which all clients got what they had to."""
        expected = {version: self._expected_by_client(message, version) for version in versions}
        tried = {
            version: list(self._problems(message, got, of_clients))
            for version, of_clients in expected.items()
        }
        best = min(tried, key=lambda version: len(tried[version]))
        self._verdict.owed += sum(1 for required, _ in expected[best].values() if required)
        if not tried[best]:
            return
        if len(message.sends) > 1 and len(versions) > 1:
            # Routed twice, maybe by one version each: each client's copies by one of them.
            shared = set.intersection(*({who for who, *_ in one} for one in tried.values()))
            if not shared:
                return
        kinds = {kind for _, kind, _ in tried[best]}
        if len(versions) > 1:
            each = [{who for who, *_ in problems} for problems in tried.values()]
            if not set.intersection(*each):
                kinds = {"mix"}
        told = "; ".join(text for *_, text in tried[best][:5])
        self._find(min(kinds), f"{message}, versions {versions}: {told}")

    def _expected_by_client(self, message: Sent, version: int) -> dict[str, Expected]:
        found = {}
        for client, holdings in self._by_client.items():
            required, allowed = self._expected(message, holdings, version)
            if allowed:
                found[client] = required, allowed
        return found

    def _problems(
        self, message: Sent, got: Got, expected: dict[str, Expected]
    ) -> Iterator[tuple[str, str, str]]:
        """What does not fit a version: client, kind, words."""
        for client, (required, allowed) in expected.items():
            copies = got.get(client)
            if copies:
                for kind, text in self._copy_problems(message, copies, required, allowed):
                    yield client, kind, f"{client}: {text}"
            elif required:
                yield client, "lost", f"{client} is owed it for {sorted(required)}"
        for client in got.keys() - expected.keys():
            yield client, "wrong", f"{client} had nothing to expect: {got[client]}"

    def _copy_problems(
        self, message: Sent, copies: list[Received], required: set[int], allowed: set[int]
    ) -> Iterator[tuple[str, str]]:
        """What is wrong with the copies that one client got."""
        found = [set(copy.nsids) or {PLAIN_NSID} for copy in copies]
        for copy, nsids in zip(copies, found, strict=True):
            if len(copy.nsids) != len(set(copy.nsids)):
                yield "wrong", f"an nsid twice: {copy}"
            if not nsids <= allowed:
                yield "wrong", f"not for {sorted(nsids - allowed)}: {copy}"
            # What was begun before the end is completed on the next connection: so MQTT wants it.
            # A broker that was killed does not know any more what it had begun.
            begun = copy.is_repeated or self._records.during(
                "broker killed", message.sends[0], copy.at
            )
            for nsid in set() if begun else nsids & allowed:
                if not self._holdings[copy.client, nsid].may_still_deliver(message, copy.at):
                    yield "late", f"{nsid} had ended before {copy}"
        if not any(required <= nsids for nsids in found):
            missing = sorted(required - set().union(*found))
            yield "lost", f"was not told {missing or sorted(required)}"

    def _expected(self, message: Sent, holdings: list[Holding], version: int) -> Expected:
        """By one client's holdings."""
        required, allowed = set(), set()
        end = message.acknowledged or float("inf")
        for holding in holdings:
            states = holding.possible(message.sends[0], end)
            matches = [
                state.matches(message.topic)
                and (
                    state.is_plain or self._ground.holds(state.neighborhood, version, message.peid)
                )
                for state in states
            ]
            if any(matches):
                allowed.add(holding.nsid)
                if all(matches):
                    required.add(holding.nsid)
        return required, allowed

    # --- one answer to a subscribe

    def _judge_change(self, change: Change) -> None:
        if change.answered is None:
            self._find("unanswered", f"{change}")
            return
        if not change.is_refused or self._records.during(
            "redis away", change.sent, change.answered
        ):
            return
        # The resolver may be ahead of the filter by the time it takes to change over.
        versions = versions_possible(
            [*self._records.in_broker, *self._records.in_redis], self._records.versions,
            change.sent, change.answered,
        )  # fmt: skip
        vanished = change.neighborhood is not None and not all(
            self._ground.is_resolvable(change.neighborhood, version) for version in versions
        )
        if not vanished:
            self._find("refused", f"{change} on versions {versions}")
