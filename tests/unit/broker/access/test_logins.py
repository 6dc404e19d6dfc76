"""Who may connect: password file, anonymous clients, and amqtt's own plugins."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from amqtt.contexts import BaseContext
from amqtt.plugins.base import BaseAuthPlugin, BaseTopicPlugin
from amqtt.session import Session

from broker.access import amqtt_plugins as access_plugins
from broker.access.access_files import WatchedFile
from broker.access.addresses import Origin
from broker.access.logins import Login, LoginLimits, Logins
from broker.access.passwords import PasswordChecker
from broker.core.requests import Authenticate
from broker.core.verdicts import Action, Identity
from tests.scenes.broker.logins import BAD, HASH, NOT, OK, no_answer, password_file, plugins_of

WRONG = Login(BAD, text="wrong user name or password")
NAMELESS = Login(NOT, text="clients without a user name may not connect")


class Odd(BaseAuthPlugin, BaseTopicPlugin):
    """Fails or hangs, as told; otherwise remembers what it was given."""

    seen: Session | None = None

    @dataclass
    class Config:
        """What to do when asked."""

        how: str = "agree"

    def __init__(self, context: BaseContext) -> None:
        super().__init__(context)
        self.how = self.config.how

    async def authenticate(self, *, session: Session) -> bool | None:
        Odd.seen = session
        self.seen_password = session.password
        return await self._behave()

    async def topic_filtering(self, **question: Any) -> bool | None:
        Odd.seen = question["session"]
        return await self._behave()

    async def _behave(self) -> bool | None:
        if self.how == "hang":
            await asyncio.sleep(3600)
        if self.how == "fail":
            raise RuntimeError("broken plugin")
        return {"agree": True, "refuse": False}.get(self.how)


ODD = f"{__name__}.Odd"


def connect(
    user: str | None = None,
    password: bytes | None = None,
    *,
    passwords: WatchedFile[PasswordChecker] | None = None,
    plugins: dict[str, Any] | None = None,
    anonymous: bool = False,
) -> Login:
    async def scenario() -> Login:
        logins = Logins(
            passwords, plugins_of(plugins or {}), allow_anonymous=anonymous, limits=LoginLimits()
        )
        request = Authenticate(None, "client", user, password, no_answer)  # type: ignore[arg-type]
        login = await logins.decide(request, Origin("192.0.2.1", 4711), lambda: False)
        assert logins.decided == {login.reason: 1}
        logins.close()
        return login

    return asyncio.run(scenario())


def test_nobody_gets_in_by_default() -> None:
    assert connect() == NAMELESS
    assert connect("admin", b"admin") == WRONG
    assert connect(None, b"secret") == WRONG
    assert connect("", b"") == WRONG


def test_anonymous_must_be_switched_on_and_then_a_name_counts_for_nothing() -> None:
    assert connect(anonymous=True) == Login(OK, None)
    assert connect("alice", b"whatever", anonymous=True) == Login(OK, None)


def test_the_password_file_decides(tmp_path: Path) -> None:
    file = password_file(tmp_path, f"alice:{HASH}\n")
    assert connect("alice", b"secret", passwords=file) == Login(OK, "alice")
    assert connect("alice", b"secret", passwords=file, anonymous=True) == Login(OK, "alice")
    for anonymous in (False, True):
        assert connect("alice", b"wrong", passwords=file, anonymous=anonymous) == WRONG
        assert connect("alice", None, passwords=file, anonymous=anonymous) == WRONG
        assert connect("bob", b"secret", passwords=file, anonymous=anonymous) == WRONG
        assert connect(None, b"secret", passwords=file, anonymous=anonymous) == WRONG
    assert connect(passwords=file) == NAMELESS
    assert connect(passwords=file, anonymous=True) == Login(OK, None)


@pytest.mark.parametrize("text", ["", "# nobody\n", "alice:secret\n", f"alice:{HASH}\nx\n", "\x00"])
def test_an_empty_or_broken_file_denies(text: str, tmp_path: Path) -> None:
    file = password_file(tmp_path, text)
    assert connect("alice", b"secret", passwords=file) == WRONG
    assert connect("", b"", passwords=file) == WRONG
    assert connect(passwords=file) == NAMELESS


def test_plugins_of_amqtt_decide(tmp_path: Path) -> None:
    (tmp_path / "users").write_text(f"alice:{HASH}\n")
    files = {
        "amqtt.plugins.authentication.FileAuthPlugin": {"password_file": str(tmp_path / "users")}
    }
    assert connect("alice", b"secret", plugins=files) == Login(OK, "alice")
    assert connect("alice", b"wrong", plugins=files) == WRONG
    assert connect("alice", b"\xff", plugins=files) == WRONG
    assert connect(plugins=files) == NAMELESS


def test_the_open_anonymous_plugin_of_amqtt_establishes_no_name() -> None:
    name = "amqtt.plugins.authentication.AnonymousAuthPlugin"
    assert connect("alice", b"x", plugins={name: {}}) == Login(OK, None)
    assert connect(plugins={name: {}}) == Login(OK, None)
    # Closed, amqtt's rule is "any name will do"; here it opens nothing.
    closed = {name: {"allow_anonymous": False}}
    assert connect("alice", b"x", plugins=closed) == WRONG


def test_password_file_and_plugins_must_agree(tmp_path: Path) -> None:
    file = password_file(tmp_path, f"alice:{HASH}\n")

    def login(how: str, password: bytes = b"secret") -> Login:
        return connect("alice", password, passwords=file, plugins={ODD: {"how": how}})

    assert login("agree") == Login(OK, "alice")
    assert login("agree", b"wrong") == WRONG
    assert login("refuse") == WRONG
    assert login("no opinion") == Login(OK, "alice")


def test_a_plugin_that_fails_or_hangs_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_plugins, "PLUGIN_SECONDS", 0.05)
    for how in ("fail", "hang"):
        assert connect("alice", b"x", plugins={ODD: {"how": how}}) == WRONG


def test_plugins_see_who_and_where_from_and_keep_no_password() -> None:
    assert connect("alice", b"x", plugins={ODD: {}}) == Login(OK, "alice")
    assert Odd.seen is not None
    seen = (Odd.seen.client_id, Odd.seen.username, Odd.seen.remote_address, Odd.seen.remote_port)
    assert seen == ("client", "alice", "192.0.2.1", 4711)
    assert Odd.seen.password is None


def test_topic_plugins_of_amqtt(monkeypatch: pytest.MonkeyPatch) -> None:
    alice = Identity("c", "alice")
    acl = "amqtt.plugins.topic_checking.TopicAccessControlListPlugin"

    async def allowed(plugins: dict[str, Any], topic: str, action: Action) -> bool:
        return await plugins_of(plugins).allows(alice, topic, action)

    rules = {acl: {"publish_acl": {"alice": ["a/+"]}, "acl": {"alice": ["b/#"]}}}
    assert asyncio.run(allowed(rules, "a/1", Action.PUBLISH))
    assert not asyncio.run(allowed(rules, "b/1", Action.PUBLISH))
    assert not asyncio.run(allowed(rules, "a/1", Action.SUBSCRIBE))
    for how, expected in (("agree", True), ("refuse", False), ("fail", False), ("none", False)):
        assert asyncio.run(allowed({ODD: {"how": how}}, "a", Action.RECEIVE)) is expected
    monkeypatch.setattr(access_plugins, "PLUGIN_SECONDS", 0.05)
    assert not asyncio.run(allowed({ODD: {"how": "hang"}}, "a", Action.RECEIVE))


def test_a_client_is_one_session_to_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_plugins, "REMEMBERED_SESSIONS", 2)
    alice = Identity("c", "alice")

    async def scenario() -> None:
        plugins = plugins_of({ODD: {}})
        assert await plugins.authenticate(alice, b"x", Origin())
        first = Odd.seen
        assert await plugins.allows(alice, "a", Action.PUBLISH)
        assert Odd.seen is first
        for number in range(5):
            assert await plugins.allows(Identity(str(number), None), "a", Action.PUBLISH)
        assert len(plugins._sessions) == 2
        assert await plugins.allows(alice, "a", Action.PUBLISH)

    asyncio.run(scenario())
