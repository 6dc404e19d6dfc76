"""Password hashes: Argon2 for new ones, and those of ``mosquitto_passwd`` read as well."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

# OWASP's smallest recommendation: a login costs some 20 ms and 19 MiB, not the whole machine.
_HASHER: Final = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
_ARGON2: Final = "$argon2"
# PBKDF2 with SHA-512, as Mosquitto 2 writes it: $7$iterations$salt$hash.
_MOSQUITTO: Final = "$7$"
# Far above what Mosquitto writes; a login must not take minutes because of a typing error.
_MAX_ITERATIONS: Final = 10_000_000
MAX_PASSWORD_BYTES: Final = 65_535


def hash_password(password: str) -> str:
    """A new hash with a salt of its own."""
    return _HASHER.hash(password)


def is_known_hash(stored: str) -> bool:
    """Whether a stored text is a hash that ``password_fits`` understands."""
    if stored.startswith(_ARGON2):
        try:
            _HASHER.check_needs_rehash(stored)
        except InvalidHashError:
            return False
        return True
    return _mosquitto_parts(stored) is not None


def password_fits(stored: str, password: bytes) -> bool:
    """Whether the password belongs to the hash; takes long on purpose, so not on the loop."""
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
