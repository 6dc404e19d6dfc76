"""Output that clients do not read is bounded over all of them, and who holds the most goes."""

from __future__ import annotations

import pytest

from broker.core.limits import BrokerLimits
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.verdicts import Identity
from broker.shell.network.output_limits import LEAST_MARK, LOOK_SECONDS, OutputBudget

LIMIT = 1_000_000
MARK = 100_000


class Link:
    def __init__(self, unread: int) -> None:
        self.unread_bytes = unread
        self.mark = MARK

    def set_write_mark(self, size: int) -> None:
        self.mark = size


def connection(unread: int, user: str | None = None, host: str | None = None) -> Connection:
    made = Connection(BrokerLimits(), 0.0, Link(unread))
    made.host = host
    if user is not None:
        made.session = Session(Identity("c", user), BrokerLimits())
    return made


def looks(connections: list[Connection], count: int = 2) -> list[Connection]:
    """What must be closed after so many looks in a row at clients that read nothing."""
    budget = OutputBudget(LIMIT, MARK)
    victims: list[Connection] = []
    for number in range(count):
        victims = budget.look(connections, 0, 10 + number * LOOK_SECONDS)
    return victims


@pytest.mark.parametrize(("more", "closed"), [(0, 0), (1, 1)])
def test_the_limit(more: int, closed: int) -> None:
    held = [connection(LIMIT // 2), connection(LIMIT // 2 + more)]
    assert looks(held) == held[1:][:closed]


def test_nobody_is_closed_at_the_first_look() -> None:
    assert looks([connection(5 * LIMIT)], 1) == []


def test_the_user_or_address_that_holds_the_most_goes_first() -> None:
    large = connection(LIMIT // 2, user="one")
    small = [connection(LIMIT // 10, host="192.0.2.1") for _ in range(7)]
    victims = looks([large, *small])
    assert len(victims) == 2
    assert large not in victims
    assert set(victims) <= set(small)


def test_clients_that_read_fast_enough_stay() -> None:
    budget, client = OutputBudget(LIMIT, MARK), connection(2 * LIMIT)
    assert not budget.look([client], 0, 10.0)
    client.peer.unread_bytes -= LIMIT // 64
    assert not budget.look([client], 0, 10.0 + LOOK_SECONDS)
    client.peer.unread_bytes -= LIMIT // 64 - 1
    assert budget.look([client], 0, 10.0 + 2 * LOOK_SECONDS) == [client]
    assert budget.bytes == 0


def test_looks_in_quick_succession_close_nobody() -> None:
    budget, client = OutputBudget(LIMIT, MARK), connection(2 * LIMIT)
    assert not any(budget.look([client], 0, 10.0 + number / 1_000) for number in range(100))


@pytest.mark.parametrize(("held", "mark"), [(LIMIT // 2, MARK), (LIMIT // 2 + 10, LIMIT // 20)])
def test_from_half_of_the_limit_on_each_has_its_part(held: int, mark: int) -> None:
    budget = OutputBudget(LIMIT, MARK)
    clients = [connection(held // 10) for _ in range(10)]
    budget.look(clients, 0, 10.0)
    assert {one.peer.mark for one in clients} == {mark}
    assert budget.mark == mark
    for one in clients:
        one.peer.unread_bytes = LIMIT // 40
    budget.look(clients, 0, 20.0)
    assert {one.peer.mark for one in clients} == {MARK}


def test_the_part_of_very_many_is_not_nothing() -> None:
    budget = OutputBudget(LIMIT, MARK)
    clients = [connection(LIMIT // 100) for _ in range(1_000)]
    budget.look(clients, 0, 10.0)
    assert budget.mark == LEAST_MARK


@pytest.mark.parametrize("held", [0, LIMIT // 4, LIMIT // 2, LIMIT, 3 * LIMIT])
def test_the_next_look_comes_before_much_more_is_written(held: int) -> None:
    """At most half of the limit, or a sixteenth of it when half is held, is written unseen."""
    budget = OutputBudget(LIMIT, MARK)
    budget.look([connection(held)], 7_000, 10.0)
    unseen = budget.next_look - 7_000
    assert unseen == max(LIMIT // 2 - held, LIMIT // 16)
