"""Limits of logins: passwords that wait, wrong ones of an address, clients that leave."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.access.addresses import Origin
from broker.access.logins import LoginLimits, Logins, WrongLogins
from broker.codec.reason_codes import ReasonCode
from broker.core.requests import Authenticate
from tests.scenes.broker.logins import BAD, HASH, OK, no_answer, password_file, plugins_of

RATE, BUSY = ReasonCode.CONNECTION_RATE_EXCEEDED, ReasonCode.SERVER_BUSY


async def decisions(logins: Logins, requests: list[tuple[str, bytes, str]]) -> list[ReasonCode]:
    """What is decided about users, passwords and addresses that come at once."""
    asked = [
        logins.decide(
            Authenticate(None, "c", user, password, no_answer), Origin(host, 1), lambda: False
        )  # type: ignore[arg-type]
        for user, password, host in requests
    ]
    return [login.reason for login in await asyncio.gather(*asked)]


def test_only_so_many_passwords_wait(tmp_path: Path) -> None:
    file = password_file(tmp_path, f"alice:{HASH}\n")

    async def scenario() -> None:
        logins = Logins(
            file, plugins_of({}), allow_anonymous=False,
            limits=LoginLimits(waiting=3, waiting_of_address=2),
        )  # fmt: skip
        wrong = [("alice", b"no", "192.0.2.1")] * 5
        assert (await decisions(logins, wrong)).count(RATE) == 3
        wrong = [("alice", b"no", f"192.0.2.{n}") for n in range(5)]
        assert (await decisions(logins, wrong)).count(BUSY) == 2
        assert logins.unchecked["address_full"] == 3
        assert logins.unchecked["all_full"] == 2
        logins.close()

    asyncio.run(scenario())


def test_an_address_with_few_displaces_one_of_the_address_with_most(tmp_path: Path) -> None:
    file = password_file(tmp_path, f"alice:{HASH}\n")

    async def scenario() -> list[ReasonCode]:
        logins = Logins(
            file, plugins_of({}), allow_anonymous=False,
            limits=LoginLimits(waiting=4, waiting_of_address=4),
        )  # fmt: skip
        many = [("mallory", b"no", "192.0.2.1")] * 4
        found = await decisions(logins, [*many, ("alice", b"secret", "192.0.2.2")])
        logins.close()
        return found

    assert asyncio.run(scenario()) == [BAD, BAD, BAD, BUSY, OK]


def test_wrong_logins_of_an_address_have_an_edge_and_remembered_ones_have_none(
    tmp_path: Path,
) -> None:
    file = password_file(tmp_path, f"alice:{HASH}\nbob:{HASH}\n")

    async def scenario() -> None:
        limits = LoginLimits(wrong_of_address=3)
        logins = Logins(file, plugins_of({}), allow_anonymous=False, limits=limits)
        assert await decisions(logins, [("alice", b"secret", "192.0.2.1")]) == [OK]
        for _ in range(3):
            assert await decisions(logins, [("alice", b"no", "192.0.2.1")]) == [BAD]
        assert await decisions(logins, [("alice", b"no", "192.0.2.1")]) == [RATE]
        assert await decisions(logins, [("bob", b"secret", "192.0.2.1")]) == [RATE]
        assert logins.unchecked["wrong_logins"] == 2
        assert await decisions(logins, [("alice", b"secret", "192.0.2.1")]) == [OK], "remembered"
        assert await decisions(logins, [("bob", b"secret", "192.0.2.2")]) == [OK]
        assert await decisions(logins, [("bob", b"secret", "192.0.2.1")]) == [OK]
        logins.close()

    asyncio.run(scenario())


def test_wrong_logins_are_forgiven_over_a_minute_and_addresses_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.access.logins.MOST_ADDRESSES", 2)
    now = 0.0
    wrong = WrongLogins(3, lambda: now)
    for host in ("a", "b", "c"):
        for _ in range(3):
            wrong.note(host)
    assert [wrong.is_over(host) for host in ("a", "b", "c")] == [False, True, True]
    now = 19.0
    assert wrong.is_over("c")
    now = 20.0
    assert not wrong.is_over("c")
    wrong.note("c")
    assert wrong.is_over("c")


def test_a_client_that_is_gone_costs_no_hash(tmp_path: Path) -> None:
    file = password_file(tmp_path, f"alice:{HASH}\n")

    async def scenario() -> Logins:
        logins = Logins(file, plugins_of({}), allow_anonymous=False, limits=LoginLimits())
        request = Authenticate(None, "c", "alice", b"secret", no_answer)  # type: ignore[arg-type]
        login = await logins.decide(request, Origin("192.0.2.1", 1), lambda: True)
        assert login.reason.is_error
        logins.close()
        return logins

    assert asyncio.run(scenario()).unchecked["gone"] == 1
    assert not file.content.is_remembered("alice", b"secret"), "it was not checked"
