"""Answers that a client does not read have a limit: beyond it nothing is taken from it."""

from __future__ import annotations

import pytest

from broker.core.limits import BrokerLimits
from broker.core.sessions.connection import Connection
from broker.shell.network.output_limits import UnreadAnswers


class Link:
    def __init__(self) -> None:
        self.reads = True

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


def connection() -> Connection:
    return Connection(BrokerLimits(), 0.0, Link())


@pytest.mark.parametrize(("size", "is_held"), [(99, False), (100, False), (101, True)])
def test_the_limit(size: int, is_held: bool) -> None:
    unread, client, other = UnreadAnswers(100), connection(), connection()
    unread.note(client, 50)
    unread.note(client, size - 50)
    unread.note(other, 50)
    assert unread.holds(client) is is_held
    assert client.peer.reads is not is_held
    assert other.peer.reads
    unread.read_again(client)
    assert client.peer.reads
    assert not unread.holds(client)


def test_a_client_that_waits_for_an_answer_goes_on_when_it_has_it() -> None:
    unread, client = UnreadAnswers(100), connection()
    unread.note(client, 101)
    client.is_blocked = True
    unread.read_again(client)
    assert not client.peer.reads


def test_a_limit_that_changes_meanwhile_stops_nobody_for_good() -> None:
    unread, client = UnreadAnswers(100), connection()
    unread.note(client, 101)
    unread.limit = 1_000
    assert unread.holds(client)
    unread.read_again(client)
    assert client.peer.reads
    assert (unread.stops, len(unread)) == (1, 0)
