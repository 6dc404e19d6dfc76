"""Who is resolved next: owners in turns, then their clients, each within its limits."""

from __future__ import annotations

from broker.resolver.resolver_requests import (
    BROKER,
    MOST_AT_ONCE,
    MOST_OF_BROKER,
    MOST_OF_OWNER,
    Asker,
    ResolveQueue,
)

Queue = ResolveQueue[tuple[Asker, int]]


def begin_all(queue: Queue) -> list[Asker]:
    found = []
    while (item := queue.next()) is not None:
        found.append(item[0])
    return found


def test_one_client_has_one_under_way_and_others_do_not_wait_for_the_rest() -> None:
    queue: Queue = ResolveQueue()
    heavy, light = Asker("user h", "h"), Asker("user l", "l")
    for number in range(100):
        queue.add(heavy, (heavy, number))
    queue.add(light, (light, 0))
    assert begin_all(queue) == [heavy, light]
    queue.end(heavy)
    queue.add(light, (light, 1))
    assert begin_all(queue) == [heavy], "one of each client at a time"
    queue.end(light)
    assert begin_all(queue) == [light]
    assert (queue.count_of("user h"), len(queue)) == (99, 100)


def test_an_owner_with_many_clients_leaves_room_for_another() -> None:
    queue: Queue = ResolveQueue()
    crowd = [Asker("address a", f"c{number}") for number in range(50)]
    for one in crowd:
        queue.add(one, (one, 0))
    assert begin_all(queue) == crowd[:MOST_OF_OWNER]
    other = Asker("user o", "o")
    queue.add(other, (other, 0))
    assert begin_all(queue) == [other]
    queue.end(crowd[0])
    assert begin_all(queue) == [crowd[MOST_OF_OWNER]], "its clients in turns too"


def test_the_broker_itself_leaves_room_for_clients() -> None:
    queue: Queue = ResolveQueue()
    for number in range(10):
        queue.add(BROKER, (BROKER, number))
    assert begin_all(queue) == [BROKER] * MOST_OF_BROKER
    client = Asker("user c", "c")
    queue.add(client, (client, 0))
    assert begin_all(queue) == [client]
    assert queue.under_way == MOST_AT_ONCE
    queue.end(BROKER)
    assert begin_all(queue) == [BROKER]


def test_turns_go_round() -> None:
    queue: Queue = ResolveQueue()
    askers = [Asker(f"user {number}", "c") for number in range(6)]
    for _ in range(3):
        for one in askers:
            queue.add(one, (one, 0))
    served = begin_all(queue)
    assert served == askers[:MOST_AT_ONCE]
    for _ in range(14):
        queue.end(served[-MOST_AT_ONCE])
        served += begin_all(queue)
    assert served == askers * 3


def test_everything_that_waits_can_be_taken_at_once() -> None:
    queue: Queue = ResolveQueue()
    one = Asker("user a", "c")
    for number in range(3):
        queue.add(one, (one, number))
    assert queue.next() == (one, 0)
    assert queue.take_all() == [(one, 1), (one, 2)]
    queue.end(one)
    assert len(queue) == queue.count_of("user a") == 0
    assert queue.next() is None
