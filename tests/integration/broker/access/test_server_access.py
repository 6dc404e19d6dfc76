"""Safe by default, on the running broker: who gets in, and which topics they reach."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.access.passwords import hash_password
from tests.servers.raw_client import (
    DISCONNECT,
    PUBACK,
    PUBLISH,
    SUBACK,
    RawClient,
    packet,
    publish_packet,
    subscribe_packet,
    text,
)
from tests.servers.running_broker import (
    COMMAND,
    PATIENCE,
    RunningBroker,
    running_broker,
    until,
)

NO_WORLD = ("--memberships", "none")
BAD_PASSWORD, NOT_AUTHORIZED, SUCCESS, REFUSED = 0x86, 0x87, 0x00, 0x80
SECRET = hash_password("secret")
RULES = """
user alice
topic readwrite home/#
topic deny home/safe
topic read $SYS/#
user bob
topic read home/kitchen
topic write home/kitchen
pattern readwrite own/%u/%c/#
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker with users and rules, shared by tests that do not change them."""
    folder = tmp_path_factory.mktemp("guarded")
    with running_broker(folder, *NO_WORLD, "--http", "0", config=access_files(folder)) as broker:
        yield broker


def access_files(folder: Path, rules: str = RULES) -> str:
    """Write password file and rules; the settings that name them."""
    users = "".join(f"{name}:{SECRET}\n" for name in ("alice", "bob", "+", "a/b", "x#"))
    (folder / "passwords").write_text(users)
    (folder / "rules").write_text(rules)
    return f'[broker]\npassword_file = "{folder}/passwords"\nacl_file = "{folder}/rules"\n'


def login(broker: RunningBroker, user: str, client_id: str | None = None) -> RawClient:
    client = RawClient(broker.port)
    code = client.connect(client_id=client_id or f"{user}'s", user=user, password=b"secret")[1]
    assert code == SUCCESS
    return client


def subscribe(client: RawClient, topic_filter: str) -> int:
    """The reason code of the SUBACK."""
    client.send(subscribe_packet(topic_filter))
    while True:
        first, body = client.read_packet()
        if first == SUBACK:
            return body[-1]


def publish(client: RawClient, topic: str, payload: bytes = b"x") -> int:
    """The reason code of the PUBACK."""
    client.send(packet(PUBLISH | 2, text(topic), b"\x00\x07", b"\x00", payload))
    while True:
        first, body = client.read_packet()
        if first == PUBACK:
            return body[2] if len(body) > 2 else SUCCESS


def next_payload(client: RawClient) -> bytes:
    """The payload of the next PUBLISH with QoS 0."""
    while True:
        first, body = client.read_packet()
        if first & 0xF0 == PUBLISH:
            topic_size = int.from_bytes(body[:2], "big")
            rest = body[2 + topic_size :]
            return rest[1 + rest[0] :]


def test_a_fresh_broker_is_on_this_machine_alone_and_lets_nobody_in(tmp_path: Path) -> None:
    with running_broker(tmp_path, *NO_WORLD) as broker:
        assert "127.0.0.1:" in broker.ready
        for who in ({}, {"user": "admin", "password": b"admin"}, {"user": ""}):
            with RawClient(broker.port) as client:
                code = client.connect(**who)[1]
                assert code == (BAD_PASSWORD if who else NOT_AUTHORIZED)
                assert client.is_closed()
        assert "nobody can connect" in broker.log


@pytest.mark.parametrize(
    "listener",
    [
        ["--listen", "0.0.0.0:0"],
        ["--listen", "[::]:0"],
        ["--config", "web.toml"],
    ],
)
def test_a_public_address_without_passwords_is_refused(listener: list[str], tmp_path: Path) -> None:
    (tmp_path / "web.toml").write_text('[broker.listeners.web]\ntype = "ws"\nbind = "0.0.0.0:0"\n')
    done = subprocess.run(
        [*COMMAND, *NO_WORLD, "--allow-anonymous", *listener],
        capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert "can be reached from other machines" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_public_address_with_a_password_file_starts(tmp_path: Path) -> None:
    config = access_files(tmp_path)
    with running_broker(tmp_path, *NO_WORLD, "--listen", "0.0.0.0:0", config=config) as broker:
        with RawClient(broker.port) as client:
            assert client.connect()[1] == NOT_AUTHORIZED
        login(broker, "alice").close()


def refusal(folder: Path, config: str) -> str:
    """What a broker says that does not start with these settings."""
    (folder / "broken.toml").write_text(config)
    done = subprocess.run(
        [*COMMAND, *NO_WORLD, "--listen", "127.0.0.1:0", "--config", str(folder / "broken.toml")],
        capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


def test_a_missing_or_broken_password_file_is_an_error_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "users"
    config = f'[broker]\npassword_file = "{path}"\n'
    assert f"broker.password_file: {path}: No such file" in refusal(tmp_path, config)
    path.write_text(f"alice:{SECRET}\nbroken\n")
    assert f"{path}, line 2: expected user:hash" in refusal(tmp_path, config)


def test_a_word_that_no_rule_file_knows_is_an_error_with_its_line(tmp_path: Path) -> None:
    config = access_files(tmp_path, "user alice\ntopic readwrite #\ntopic dney secret/#\n")
    said = refusal(tmp_path, config)
    assert f"broker.acl_file: {tmp_path}/rules, line 3: " in said
    assert "not 'dney'" in said


def reload(broker: RunningBroker) -> None:
    """Have the broker read its files, and wait until it has."""
    before = broker.log.count("access files read again")
    broker.reload()
    until(lambda: broker.log.count("access files read again") > before, "files read again")


def test_an_empty_or_broken_password_file_denies(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"alice:{SECRET}\n")
    config = f'[broker]\npassword_file = "{path}"\n'
    with running_broker(tmp_path, *NO_WORLD, "--http", "0", config=config) as broker:
        login(broker, "alice").close()
        for content in ("", "alice:secret\n", f"alice:{SECRET}\nbroken\n", None):
            if content is None:
                path.unlink()
            else:
                path.write_text(content)
            reload(broker)
            for password in (b"secret", b"", None):
                with RawClient(broker.port) as client:
                    assert client.connect(user="alice", password=password)[1] == BAD_PASSWORD
            assert broker.problems() == ([f"{path} denies everybody"] if content != "" else [])
        assert f"access denied to everybody until this is repaired: {path}, line 2" in broker.log
        assert f"{path}: No such file" in broker.log


def test_an_empty_or_broken_rule_file_denies(tmp_path: Path) -> None:
    config = access_files(tmp_path)
    with (
        running_broker(tmp_path, *NO_WORLD, config=config) as broker,
        login(broker, "alice") as client,
    ):
        assert subscribe(client, "home/kitchen") == SUCCESS
        for content in ("", "# only words\n", "user alice\ntopic read #\ntopic dney x\n"):
            (tmp_path / "rules").write_text(content)
            reload(broker)
            assert subscribe(client, "home/cellar") == NOT_AUTHORIZED
            assert publish(client, "home/kitchen") == NOT_AUTHORIZED


def test_passwords(guarded: RunningBroker) -> None:
    cases = [("alice", b"secret"), ("alice", b"Secret"), ("alice", None), ("carol", b"secret")]
    codes = []
    for user, password in cases:
        with RawClient(guarded.port) as client:
            codes.append(client.connect(user=user, password=password)[1])
    assert codes == [SUCCESS, BAD_PASSWORD, BAD_PASSWORD, BAD_PASSWORD]
    assert "secret" not in guarded.log.lower()


def test_rules_for_reading_and_writing(guarded: RunningBroker) -> None:
    with login(guarded, "alice") as alice, login(guarded, "bob", "phone") as bob:
        assert subscribe(alice, "home/#") == SUCCESS
        assert subscribe(alice, "#") == NOT_AUTHORIZED
        assert subscribe(alice, "$SYS/broker/uptime") == SUCCESS
        assert subscribe(alice, "home/safe") == NOT_AUTHORIZED
        assert publish(alice, "home/safe") == NOT_AUTHORIZED
        assert publish(alice, "elsewhere") == NOT_AUTHORIZED
        assert subscribe(bob, "home/kitchen") == SUCCESS
        assert subscribe(bob, "home/kitchen/secret") == NOT_AUTHORIZED
        assert subscribe(bob, "home/+") == NOT_AUTHORIZED
        assert subscribe(bob, "$SYS/#") == NOT_AUTHORIZED
        assert subscribe(bob, "own/bob/phone/#") == SUCCESS
        assert subscribe(bob, "own/alice/phone/#") == NOT_AUTHORIZED
        assert publish(bob, "own/bob/other") == NOT_AUTHORIZED


@pytest.mark.parametrize("name", ["+", "x#", "a/b"])
def test_wildcards_in_names_widen_nothing(name: str, guarded: RunningBroker) -> None:
    with login(guarded, name, "c") as client:
        for topic in ("own/bob/c/x", "own/a/b/c/x", f"own/{name}/c/x", "own/+/c/#", "own/#"):
            assert subscribe(client, topic) >= REFUSED
    with login(guarded, "bob", name) as client:
        for topic in ("own/bob/c/x", f"own/bob/{name}/x", "own/bob/#"):
            assert subscribe(client, topic) >= REFUSED


def test_a_shared_subscription_is_judged_by_its_filter(guarded: RunningBroker) -> None:
    with login(guarded, "bob") as bob, login(guarded, "alice") as alice:
        assert subscribe(bob, "$share/group/home/#") == NOT_AUTHORIZED
        assert subscribe(bob, "$share/group/home/kitchen") == SUCCESS
        # The refused one left nothing behind: what it would have got goes to nobody.
        assert publish(alice, "home/cellar") in (SUCCESS, 0x10)
        assert publish(alice, "home/kitchen", b"dinner") == SUCCESS
        assert next_payload(bob) == b"dinner"


def test_a_will_without_the_right_to_it(guarded: RunningBroker) -> None:
    with login(guarded, "alice") as alice:
        assert subscribe(alice, "home/#") == SUCCESS
        with RawClient(guarded.port) as bob:
            will = ("home/cellar", b"forbidden")
            code = bob.connect(client_id="w", user="bob", password=b"secret", will=will)[1]
        if code == SUCCESS:  # then it must not be sent
            alice.ping()
        else:
            assert code == NOT_AUTHORIZED
        with login(guarded, "bob", "other") as other:
            publish(other, "home/kitchen", b"allowed")
        assert next_payload(alice) == b"allowed"


def test_nobody_takes_over_or_wipes_the_session_of_another_user(guarded: RunningBroker) -> None:
    with login(guarded, "alice", "shared-id") as alice:
        assert subscribe(alice, "home/kitchen") == SUCCESS
        for clean in (True, False):
            with RawClient(guarded.port) as bob:
                taken = bob.connect(
                    client_id="shared-id", user="bob", password=b"secret", clean=clean
                )
            with RawClient(guarded.port) as bob:
                free = bob.connect(client_id="free-id", user="bob", password=b"secret", clean=clean)
            # A session of its own, and nothing says that another user has one of that name.
            assert taken == free
            assert taken[:2] == bytes((0, SUCCESS))
        with login(guarded, "bob") as bob:
            publish(bob, "home/kitchen", b"still here")
        assert next_payload(alice) == b"still here"


def test_a_right_that_is_taken_away_holds_at_once(tmp_path: Path) -> None:
    config = access_files(tmp_path)
    with (
        running_broker(tmp_path, *NO_WORLD, config=config) as broker,
        login(broker, "alice") as alice,
        login(broker, "bob", "b") as bob,
    ):
        assert subscribe(bob, "home/kitchen") == SUCCESS
        assert subscribe(bob, "own/bob/b/#") == SUCCESS
        publish(alice, "home/kitchen", b"before")
        assert next_payload(bob) == b"before"

        (tmp_path / "rules").write_text(RULES.replace("topic read home/kitchen", ""))
        broker.reload()
        broker.wait_for_log("access files read again")
        publish(alice, "home/kitchen", b"after")
        bob.send(publish_packet("own/bob/b/x", b"mine"))
        assert next_payload(bob) == b"mine"
        assert publish(bob, "home/kitchen") == SUCCESS, "writing was not taken away"


def test_files_that_change_are_read_without_a_signal(tmp_path: Path) -> None:
    config = access_files(tmp_path)
    with running_broker(tmp_path, *NO_WORLD, config=config) as broker:
        with login(broker, "bob") as bob:
            assert subscribe(bob, "late") == NOT_AUTHORIZED
            (tmp_path / "rules").write_text(RULES + "user bob\ntopic read late\n")
            broker.wait_for_log("access rules read again")
            assert subscribe(bob, "late") == SUCCESS
        with (tmp_path / "passwords").open("a") as file:
            file.write(f"carol:{SECRET}\n")
        broker.wait_for_log("password file read again")
        login(broker, "carol").close()


def test_a_denial_can_be_without_its_reason(tmp_path: Path) -> None:
    config = access_files(tmp_path) + "tell_denials = false\n"
    config += '[broker.plugins."amqtt.plugins.topic_checking.TopicTabooPlugin"]\n'
    with (
        running_broker(tmp_path, *NO_WORLD, config=config) as broker,
        login(broker, "alice") as client,
    ):
        assert subscribe(client, "elsewhere") == REFUSED
        assert publish(client, "elsewhere") == REFUSED
        assert subscribe(client, "home/kitchen") == SUCCESS


def test_topic_plugins_of_amqtt_are_asked(tmp_path: Path) -> None:
    config = """
    [broker]
    allow_anonymous = true
    [broker.plugins."amqtt.plugins.topic_checking.TopicTabooPlugin"]
    """
    with (
        running_broker(tmp_path, *NO_WORLD, config=config) as broker,
        RawClient(broker.port) as client,
    ):
        assert client.connect()[1] == SUCCESS
        assert subscribe(client, "open") == SUCCESS
        assert subscribe(client, "top-secret") == NOT_AUTHORIZED
        assert publish(client, "prohibited") == NOT_AUTHORIZED
        client.send(publish_packet("open", b"hello"))
        assert next_payload(client) == b"hello"


def test_a_stopping_broker_says_so(tmp_path: Path) -> None:
    with running_broker(tmp_path, *NO_WORLD, "--allow-anonymous") as broker:
        with RawClient(broker.port) as client:
            client.connect()
            assert broker.stop() == 0
            first, body = client.read_packet()
            assert (first, body[0]) == (DISCONNECT, 0x8B)
            assert client.is_closed()
        until(lambda: broker.process.poll() == 0, "the end")
