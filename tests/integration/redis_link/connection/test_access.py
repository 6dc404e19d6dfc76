"""Passwords, users and TLS on real servers: what is right gets in, what is wrong says why."""
# ruff: noqa: S105 - passwords of servers that live for one test

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from redis import Redis

from redis_link.connection.client import connect
from redis_link.connection.url import PASSWORD_VARIABLE
from schemas.errors import RedisLinkError, SettingsError
from tests.servers.redis_content import as_pairs, pairs_in_redis, random_pairs
from tests.servers.redis_pushes import push
from tests.servers.redis_server import (
    Certificates,
    RedisServer,
    free_port,
    make_certificates,
    running_redis,
)

PASSWORD = "correct horse/battery@staple"
WRONG = "tr0ub4dor"
USERS = {
    # What docs/decisions/0050 tells to give to a user that pushes.
    "pusher": "~spaps:* resetchannels &spaps:* +@read +@write +@connection +eval +time +publish",
    "reader": "~* +@read +@connection",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server with a password, and a user that may do what a push does and nothing else."""
    with running_redis(tmp_path_factory.mktemp("guarded"), "--requirepass", PASSWORD) as server:
        with Redis(port=server.port, password=PASSWORD) as client:
            for user, rights in USERS.items():
                words = ["ACL", "SETUSER", user, "on", f">{PASSWORD}", *rights.split()]
                client.execute_command(*words)
        yield server


def url_of(server: RedisServer, user: str, password: str) -> str:
    return f"redis://{user}:{quote(password, safe='')}@127.0.0.1:{server.port}"


def test_password(guarded: RedisServer) -> None:
    pairs = random_pairs(1, 2_000)
    client = connect(url_of(guarded, "", PASSWORD))
    assert pairs_in_redis(client, push(client, pairs)) == as_pairs(*pairs)


def test_a_user_with_few_rights_can_push(guarded: RedisServer) -> None:
    pairs = random_pairs(2, 2_000)
    generation = push(connect(url_of(guarded, "pusher", PASSWORD)), pairs)
    client = connect(url_of(guarded, "", PASSWORD))
    assert pairs_in_redis(client, generation) == as_pairs(*pairs)


def test_password_from_the_environment(
    guarded: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    assert connect(guarded.url).ping()


@pytest.mark.parametrize("user", ["", "pusher", "nobody"])
def test_wrong_password_is_said_without_it(guarded: RedisServer, user: str) -> None:
    with pytest.raises(RedisLinkError, match="refuses the user or password") as caught:
        connect(url_of(guarded, user, WRONG))
    assert WRONG not in str(caught.value)
    assert str(guarded.port) in str(caught.value)


def test_missing_password_is_said(guarded: RedisServer) -> None:
    with pytest.raises(RedisLinkError, match="refuses the user or password"):
        connect(guarded.url)


def test_missing_rights_are_said(guarded: RedisServer) -> None:
    with pytest.raises(RedisLinkError, match="may not do this"):
        push(connect(url_of(guarded, "reader", PASSWORD)), random_pairs(3, 10))


def test_nobody_there_is_one_line() -> None:
    port = free_port()
    with pytest.raises(RedisLinkError, match=rf"^Redis at 127\.0\.0\.1:{port}: [^\n]+$"):
        connect(f"redis://127.0.0.1:{port}")


@pytest.fixture(scope="module")
def certificates(
    tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], Path]
) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"), program("openssl"))


@pytest.fixture(scope="module")
def tls_port(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[int]:
    """A server that speaks TLS only, with a password."""
    port = free_port()
    options = {
        "tls-port": port,
        "tls-cert-file": certificates.certificate,
        "tls-key-file": certificates.key,
        "tls-ca-cert-file": certificates.authority,
        "tls-auth-clients": "no",
        "requirepass": WRONG,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    with running_redis(tmp_path_factory.mktemp("tls"), *words):
        yield port


def test_tls(tls_port: int, certificates: Certificates) -> None:
    pairs = random_pairs(4, 20_000)
    client = connect(f"rediss://:{WRONG}@127.0.0.1:{tls_port}?ca={certificates.authority}")
    assert pairs_in_redis(client, push(client, pairs)) == as_pairs(*pairs)


def test_tls_with_an_unknown_authority_is_refused(tls_port: int) -> None:
    with pytest.raises(RedisLinkError, match="certificate"):
        connect(f"rediss://:{WRONG}@127.0.0.1:{tls_port}")


def test_tls_for_another_name_is_refused(tls_port: int, certificates: Certificates) -> None:
    with pytest.raises(RedisLinkError, match="certificate"):
        connect(f"rediss://:{WRONG}@localhost:{tls_port}?ca={certificates.authority}")


def test_missing_certificate_file_is_said(tls_port: int) -> None:
    with pytest.raises(SettingsError, match=r"no certificate file /nowhere\.pem"):
        connect(f"rediss://127.0.0.1:{tls_port}?ca=/nowhere.pem")
