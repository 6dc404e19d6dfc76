"""Logins with a password file and plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amqtt.broker import Broker
from amqtt.contexts import BrokerConfig

from broker.access.access_files import WatchedFile
from broker.access.amqtt_plugins import PluginAccess
from broker.access.passwords import PasswordChecker, hash_password, read_users
from broker.codec.reason_codes import ReasonCode

OK, BAD, NOT = (
    ReasonCode.SUCCESS,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD,
    ReasonCode.NOT_AUTHORIZED,
)
HASH = hash_password("secret")


def no_answer(*_: object) -> None:
    """The logins return their decision; the request's own answer is for the shell."""


def plugins_of(plugins: dict[str, Any]) -> PluginAccess:
    listeners = BrokerConfig.from_dict({"plugins": plugins})
    return PluginAccess(Broker(listeners).plugins_manager)


def password_file(folder: Path, text: str) -> WatchedFile[PasswordChecker]:
    path = folder / "passwords"
    path.write_text(text)
    return WatchedFile(path, lambda file: PasswordChecker(read_users(file)), PasswordChecker({}))
