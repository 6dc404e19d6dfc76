"""The access files in force, and topics judged by them, by amqtt's plugins, or by both."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from broker.access.access_files import WatchedFile
from broker.access.amqtt_plugins import PluginAccess
from broker.access.passwords import PasswordChecker, read_users
from broker.access.topic_rules import AccessRules, read_rules
from broker.codec.reason_codes import ReasonCode
from broker.core.verdicts import AccessControl, Action, AllowAll, Identity, Verdict
from schemas.errors import SettingsError
from schemas.settings import BrokerSettings

log = logging.getLogger(__name__)


LOOK_SECONDS: Final = 1.0
# Plugins may change their mind without telling: verdicts of theirs are asked for again.
PLUGIN_VERDICT_SECONDS: Final = 60.0


class AccessFiles:
    """Password file and access rules; None where the settings name no file.

    A file that cannot be read or understood at the start is an error. When it breaks or
    vanishes later, it denies everything until it is repaired.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self.passwords: WatchedFile[PasswordChecker] | None = None
        self.rules: WatchedFile[AccessRules] | None = None
        if settings.password_file is not None:
            self.passwords = WatchedFile(
                settings.password_file,
                lambda path: PasswordChecker(read_users(path)),
                PasswordChecker({}),
            )
        if settings.acl_file is not None:
            self.rules = WatchedFile(settings.acl_file, read_rules, AccessRules())
        for key, file in (("password_file", self.passwords), ("acl_file", self.rules)):
            if file is not None and file.problem is not None:
                raise SettingsError(f"broker.{key}: {file.problem}")
        if self.passwords is not None and not self.passwords.content.has_users:
            log.warning("nobody can log in: %s has no users", self.passwords.path)

    @property
    def broken(self) -> list[str]:
        """The files that deny everything because they cannot be understood."""
        return [
            str(file.path)
            for file in (self.passwords, self.rules)
            if file is not None and file.is_broken
        ]

    def reload(self) -> None:
        """Read both files now."""
        for file in (self.passwords, self.rules):
            if file is not None:
                file.reload()
        log.info("access files read again")

    async def watch(self, rules_changed: Callable[[], None]) -> None:
        """Read the files whenever they change, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.passwords is not None and self.passwords.reload_if_changed():
                log.info("password file read again", extra={"file": str(self.passwords.path)})
            if self.rules is not None and self.rules.reload_if_changed():
                log.info("access rules read again", extra={"file": str(self.rules.path)})
                rules_changed()


async def forget_plugin_verdicts(forget: Callable[[], None]) -> None:
    """Have plugins asked anew from time to time, until cancelled."""
    while True:
        await asyncio.sleep(PLUGIN_VERDICT_SECONDS)
        forget()


class RulesAndPlugins:
    """Refused when the file refuses; otherwise the plugins have the last word, if there are any."""

    def __init__(
        self, rules: WatchedFile[AccessRules] | None, denial: Verdict, *, ask_plugins: bool
    ) -> None:
        """``denial`` is what a client gets to see when the file refuses."""
        self._rules = rules
        self._denial = denial
        self._ask_plugins = ask_plugins

    def verdict(self, client: Identity, topic: str, action: Action) -> Verdict | None:
        """Return the file's verdict at once; None when the plugins must be asked."""
        if self._rules is not None:
            verdict = self._rules.content.verdict(client, topic, action)
            if verdict is not ReasonCode.SUCCESS:
                return self._denial
        return None if self._ask_plugins else ReasonCode.SUCCESS


def denial_code(*, tells_why: bool) -> Verdict:
    """Return the reason code for a client that may not use a topic.

    MQTT 5 has a code for a server that does not wish to reveal its reason.
    """
    return ReasonCode.NOT_AUTHORIZED if tells_why else ReasonCode.UNSPECIFIED_ERROR


def access_control(
    rules: WatchedFile[AccessRules] | None, plugins: PluginAccess, denial: Verdict
) -> AccessControl:
    """Return what decides about topics, given the access file (if any) and the plugins."""
    if rules is None and not plugins.judges_topics:
        return AllowAll()
    return RulesAndPlugins(rules, denial, ask_plugins=plugins.judges_topics)
