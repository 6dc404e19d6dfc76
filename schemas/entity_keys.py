"""Keys of entities: the identifiers that sources give, and the peids that are made from them.

A key is a text of 1 to 1,024 printable characters without space at its ends. A key that is a whole
number of 0 .. 2^63-1 in its shortest decimal form is its own peid. Every other key is hashed (see
``peid_of_key``), so a key has the same peid in every version and in every order of sources.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from schemas.language.limits import MAX_PEID

MAX_KEY_CHARACTERS: Final = 1_024
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


def peid_of_key(key: str) -> int:
    """Return the peid of an entity whose source has no peids.

    It is the number that the key is, else the first 63 bits of the 8-byte BLAKE2b digest of the key
    in UTF-8, read as a big-endian number.
    """
    number = number_of_key(key)
    if number is not None:
        return number
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def number_of_key(key: str) -> int | None:
    """Return the number that a key is; None for a key that must be hashed, such as ``007``."""
    if not _NUMBER.fullmatch(key):
        return None
    number = int(key)
    return number if number <= MAX_PEID else None


def is_hashed(key: str, peid: int) -> bool:
    """Return whether the peid was made from the key by the hash."""
    return number_of_key(key) is None and peid_of_key(key) == peid


def key_fault(key: str) -> str | None:
    """Return why a text, without space at its ends, cannot be a key; None if it can."""
    if not key:
        return "is empty"
    if len(key) > MAX_KEY_CHARACTERS:
        return f"is longer than {MAX_KEY_CHARACTERS:,} characters"
    if not key.isprintable():
        return f"{key[:60]!r} has a character that cannot be printed"
    return None
