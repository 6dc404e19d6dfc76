"""Lines that clients cause are limited by address and in all, and counted when left out."""

from __future__ import annotations

import logging

from broker.shell.operations.logs import MOST_ADDRESSES, ClientLineLimit


class Log:
    """Sends records through the filter, at times that the test says."""

    def __init__(self, most: int, most_of_address: int) -> None:
        self._filter = ClientLineLimit(most, most_of_address)
        self.now = 1_700_000_000.0

    def line(self, origin: str | None) -> logging.LogRecord | None:
        """The record of a line, or None when it is left out."""
        content = {"msg": "m", "created": self.now}
        record = logging.makeLogRecord(content if origin is None else content | {"from": origin})
        return record if self._filter.filter(record) else None

    def written(self, origin: str | None, lines: int) -> int:
        return sum(self.line(origin) is not None for _ in range(lines))


def test_an_address_has_its_lines_a_minute_and_others_theirs() -> None:
    log = Log(1_000, 10)
    assert log.written("192.0.2.1:4711", 100) == 10
    assert log.written("192.0.2.1:4712", 5) == 0, "another port is the same address"
    assert log.written("192.0.2.2:1", 5) == 5
    log.now += 6
    assert log.written("192.0.2.1:1", 5) == 1
    log.now += 600
    assert log.written("192.0.2.1:1", 100) == 10, "no more than a minute's are saved up"


def test_all_clients_together() -> None:
    log = Log(50, 10)
    assert sum(log.written(f"192.0.2.{number}:1", 10) for number in range(20)) == 50
    assert log.written("198.51.100.1:1", 1) == 0


def test_the_broker_itself_is_never_left_out() -> None:
    log = Log(1, 1)
    log.written("192.0.2.1:1", 10)
    assert log.written(None, 1_000) == 1_000


def test_what_is_left_out_is_said_before_and_after() -> None:
    log = Log(1_000, 3)
    lines = [log.line("192.0.2.1:1") for _ in range(8)]
    assert [getattr(line, "log_limit", None) for line in lines] == [
        None, None, "address", None, None, None, None, None,
    ]  # fmt: skip
    log.now += 60
    after = log.line("192.0.2.1:1")
    assert after is not None
    assert vars(after)["lines_left_out"] == 5
    again = log.line("192.0.2.1:1")
    assert again is not None
    assert not hasattr(again, "lines_left_out")


def test_addresses_of_ipv6_count_by_their_network() -> None:
    log = Log(1_000, 4)
    assert log.written("[2001:db8::1]:1", 3) == 3
    assert log.written("[2001:db8::2]:1", 3) == 1
    assert log.written("[2001:db8:0:1::1]:1", 3) == 3
    assert log.written("2001:db8::3", 3) == 0, "without a port, as for a will"


def test_very_many_addresses_do_not_fill_the_memory() -> None:
    log = Log(10**9, 10)
    assert log.written("192.0.2.1:1", 20) == 10
    for number in range(MOST_ADDRESSES):
        log.line(f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}:1")
    assert log.written("192.0.2.1:1", 1) == 1, "the one that was quiet longest was forgotten"
