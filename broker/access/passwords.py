"""The password file: ``user:hash``, one a line, and checking passwords against it.

New hashes are Argon2; those of ``mosquitto_passwd`` are read as well.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import tempfile
from pathlib import Path
from typing import Final, TypeAlias

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from schemas.errors import Mistakes, OutputError, SettingsError
from schemas.settings import read_text

Users: TypeAlias = dict[str, str]

# Logins that succeeded and are known again without the slow hash.
REMEMBERED_LOGINS: Final = 10_000
# OWASP's smallest recommendation: a login costs some 20 ms and 19 MiB, not the whole machine.
_HASHER: Final = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
_ARGON2: Final = "$argon2"
# PBKDF2 with SHA-512, as Mosquitto 2 writes it: $7$iterations$salt$hash.
_MOSQUITTO: Final = "$7$"
# Far more than Mosquitto writes: a typing error must not make a login take minutes.
_MAX_ITERATIONS: Final = 10_000_000


def hash_password(password: str) -> str:
    """Return a new hash with a salt of its own."""
    return _HASHER.hash(password)


def is_known_hash(stored: str) -> bool:
    """Return whether a stored text is a hash that ``password_fits`` understands."""
    if stored.startswith(_ARGON2):
        try:
            _HASHER.check_needs_rehash(stored)
        except InvalidHashError:
            return False
        return True
    return _mosquitto_parts(stored) is not None


def password_fits(stored: str, password: bytes) -> bool:
    """Return whether the password belongs to the hash; too slow for the event loop, on purpose."""
    if stored.startswith(_ARGON2):
        try:
            return _HASHER.verify(stored, password)
        except (VerificationError, InvalidHashError):
            return False
    parts = _mosquitto_parts(stored)
    if parts is None:
        return False
    iterations, salt, expected = parts
    found = hashlib.pbkdf2_hmac("sha512", password, salt, iterations, len(expected))
    return hmac.compare_digest(found, expected)


def _mosquitto_parts(stored: str) -> tuple[int, bytes, bytes] | None:
    if not stored.startswith(_MOSQUITTO):
        return None
    fields = stored.removeprefix(_MOSQUITTO).split("$")
    if len(fields) != 3 or not fields[0].isdecimal():
        return None
    try:
        salt, expected = (base64.b64decode(part, validate=True) for part in fields[1:])
    except binascii.Error:
        return None
    iterations = int(fields[0])
    usable = 0 < iterations <= _MAX_ITERATIONS and salt and len(expected) >= 32
    return (iterations, salt, expected) if usable else None


def read_users(path: Path) -> Users:
    """Return the users of a file; SettingsError when one of its lines is not valid."""
    text = read_text(path)
    users: Users = {}
    mistakes = Mistakes()
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        # From the right: a name may hold a colon, a hash never does.
        name, _, stored = stripped.rpartition(":")
        if not name or not is_known_hash(stored):
            mistakes.append(
                f"{path}, line {number}: expected user:hash as 'spaps passwd' writes it"
            )
        elif name in users:
            mistakes.append(f"{path}, line {number}: user {name!r} stands there twice")
        else:
            users[name] = stored
    mistakes.check()
    return users


def write_users(path: Path, users: Users) -> None:
    """Replace the file in one step, readable by its owner alone."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.writelines(f"{name}:{stored}\n" for name, stored in users.items())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}; it was not written") from error


def check_user_name(name: str) -> None:
    """Raise SettingsError for a name that would not be the same when it is read again."""
    if not name or name != name.strip() or name.startswith("#") or not name.isprintable():
        raise SettingsError(
            f"user name {name!r}: must be printable, not begin with # and have no outer spaces"
        )


class PasswordChecker:
    """Checks logins against one state of the password file. Safe to call from any thread."""

    def __init__(self, users: Users) -> None:
        self._users = users
        # An unknown user costs the same time as a known one, so that names cannot be guessed.
        self._nobody = hash_password(secrets.token_hex())
        self._key = secrets.token_bytes(32)
        self._remembered: set[bytes] = set()

    @property
    def names(self) -> tuple[str, ...]:
        """The users of the file."""
        return tuple(self._users)

    @property
    def has_users(self) -> bool:
        """Whether the file has users."""
        return bool(self._users)

    def is_remembered(self, user_name: str, password: bytes) -> bool:
        """Return whether this login succeeded before, without computing the slow hash."""
        return self._mark(user_name, password) in self._remembered

    def check(self, user_name: str, password: bytes) -> bool:
        """Return whether the password is right; slow on purpose."""
        stored = self._users.get(user_name)
        if not password_fits(stored or self._nobody, password) or stored is None:
            return False
        if len(self._remembered) >= REMEMBERED_LOGINS:
            self._remembered = set()
        self._remembered.add(self._mark(user_name, password))
        return True

    def _mark(self, user_name: str, password: bytes) -> bytes:
        """Return a keyed hash of a login; the key is not stored outside of this process."""
        name = user_name.encode()
        content = len(name).to_bytes(4, "big") + name + password
        return hashlib.blake2b(content, key=self._key, digest_size=32).digest()
