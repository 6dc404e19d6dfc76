"""Wrong logins in masses against the running broker: others get in meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.access.passwords import hash_password
from tests.servers.raw_client import CONNACK, RawClient, connect_packet
from tests.servers.running_broker import RunningBroker, running_broker, until

ATTACKS = 300
SUCCESS, BAD_PASSWORD, RATE_EXCEEDED = 0x00, 0x86, 0x9F
WRONG_TOTAL = 'spaps_logins_total{reason="bad_user_name_or_password"}'


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker with two users and the default limits."""
    users = "".join(f"{name}:{hash_password('secret')}\n" for name in ("alice", "bob"))
    (tmp_path / "users").write_text(users)
    config = f'[broker]\npassword_file = "{tmp_path}/users"\nlog_level = "warning"\n'
    arguments = ("--memberships", "none", "--http", "127.0.0.1:0")
    with running_broker(tmp_path, *arguments, config=config) as running:
        yield running


def attack(broker: RunningBroker, host: str, count: int = ATTACKS) -> list[socket.socket]:
    """Send so many wrong logins from an address of this machine, and read no answer."""
    links = []
    for number in range(count):
        link = socket.create_connection(("127.0.0.1", broker.port), 30, source_address=(host, 0))
        link.sendall(connect_packet(f"x{number}", user="alice", password=b"%d" % number))
        links.append(link)
    return links


def code_of(link: socket.socket) -> int:
    answer = link.recv(5)
    assert answer[0] == CONNACK
    return answer[3]


def login(broker: RunningBroker, user: str) -> int:
    with RawClient(broker.port) as client:
        return client.connect(client_id=user, user=user, password=b"secret")[1]


def test_others_get_in_while_one_address_sends_wrong_logins(broker: RunningBroker) -> None:
    links = attack(broker, "127.0.0.2")
    assert login(broker, "bob") == SUCCESS
    # Its turn came after a few, not after all.
    assert broker.metric(WRONG_TOTAL) < ATTACKS / 3
    codes = [code_of(link) for link in links]
    assert set(codes) <= {BAD_PASSWORD, RATE_EXCEEDED}
    assert 0 < codes.count(BAD_PASSWORD) < ATTACKS / 3
    refused = 'spaps_logins_unchecked_total{cause="%s"}'
    counted = sum(broker.metric(refused % cause) for cause in ("address_full", "wrong_logins"))
    assert counted == codes.count(RATE_EXCEEDED)
    for link in links:
        link.close()


def test_a_login_that_succeeded_before_is_let_in_at_once(broker: RunningBroker) -> None:
    assert login(broker, "alice") == SUCCESS
    links = attack(broker, "127.0.0.1", 150)
    assert login(broker, "alice") == SUCCESS
    assert broker.metric(WRONG_TOTAL) < 50
    for link in links:
        link.close()


def test_a_client_that_is_gone_costs_no_hash(broker: RunningBroker) -> None:
    for link in attack(broker, "127.0.0.2", 20):
        link.close()
    until(lambda: not broker.metric("spaps_connections"), "the end of all connections")
    gone = broker.metric('spaps_logins_unchecked_total{cause="gone"}')
    assert gone > 0
    assert broker.metric(WRONG_TOTAL) <= 20 - gone
