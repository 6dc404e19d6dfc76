"""Named neighborhoods: what a name looks like, and how clients and Redis write it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from schemas.errors import DescriptorError, RedisLinkError

# A name is one level of a topic, without wildcards and without what looks like another letter.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
NAME_FORM: Final = "1 to 64 letters (a-z, A-Z), digits, '_', '.' or '-'"
# Together they take at most 65 MB in Redis: a descriptor has at most 65,535 bytes.
MOST_NAMES: Final = 1_000
# In place of a descriptor: ``@NAME``.
NAME_SIGN: Final = "@"
# In front of a topic filter: ``$neighborhood/NAME/filter``.
NAME_PREFIX: Final = "$neighborhood/"


def is_name(text: str) -> bool:
    """Return whether the text can be the name of a neighborhood."""
    return _NAME.fullmatch(text) is not None


def checked_name(text: str) -> str:
    """Return the name; DescriptorError when the text cannot be one."""
    if not is_name(text):
        raise DescriptorError(f"{text[:80]!r} cannot name a neighborhood; allowed: {NAME_FORM}")
    return text


def name_in_property(text: str) -> str | None:
    """Return the name that stands in place of a descriptor; None when the text is a descriptor."""
    return checked_name(text[len(NAME_SIGN) :]) if text.startswith(NAME_SIGN) else None


@dataclass(frozen=True, slots=True)
class NamedNeighborhood:
    """A name, the descriptor (JSON text) that it stands for, and the hash of its meaning."""

    name: str
    descriptor: str
    neighborhood_hash: str
    # Seconds since 1970 of the last change.
    changed_at: float = 0.0

    def to_json(self) -> str:
        """Return the definition as Redis keeps it, without the name."""
        content = {
            "descriptor": self.descriptor,
            "hash": self.neighborhood_hash,
            "changedAt": self.changed_at,
        }
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, name: str, text: str | bytes) -> NamedNeighborhood:
        """Return the definition as read from Redis."""
        try:
            content: dict[str, Any] = json.loads(text)
            return cls(name, content["descriptor"], content["hash"], content["changedAt"])
        except (ValueError, TypeError, KeyError) as error:
            raise RedisLinkError(
                f"the neighborhood {name!r} in Redis is broken ({error!r}): add it again"
            ) from error
