"""Rules for topics on the running broker: reading, writing, wills, wildcards, rights that go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenes.broker.guarded_broker import (
    NO_WORLD,
    NOT_AUTHORIZED,
    REFUSED,
    RULES,
    SECRET,
    SUCCESS,
    access_files,
    login,
    next_payload,
    publish,
    subscribe,
)
from tests.servers.raw_client import RawClient, publish_packet
from tests.servers.running_broker import RunningBroker, running_broker


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
