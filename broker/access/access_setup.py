"""The access files in force: read at the start, looked at again and again, read on demand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from broker.access.access_files import WatchedFile
from broker.access.password_file import PasswordChecker, read_users
from broker.access.topic_rules import AccessRules, read_rules
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
