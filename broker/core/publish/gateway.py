"""Gateway rules: the peid out of the topic, for publishers that cannot set properties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.codec.publish import parse_peid
from schemas.errors import SettingsError

PLACEHOLDER: Final = "{peid}"


def contradiction(gateway_peid: int | None, peid: int | None) -> str | None:
    """Say why a ``peid`` property cannot stand beside what the topic says; None: it can."""
    if gateway_peid is None or peid is None or peid == gateway_peid:
        return None
    return f"the topic is about entity {gateway_peid}, the peid property says {peid}"


class GatewayRules:
    """Topic templates such as ``sensor/{peid}/temperature``; ``+`` stands for any one level."""

    __slots__ = ("_templates",)

    def __init__(self, templates: Sequence[str] = ()) -> None:
        self._templates: list[list[str]] = []
        for template in templates:
            levels = template.split("/")
            wrong = [level for level in levels if "{" in level and level != PLACEHOLDER]
            if levels.count(PLACEHOLDER) != 1 or wrong or "#" in template:
                raise SettingsError(
                    f"gateway rule {template!r}: exactly one level must be {PLACEHOLDER}, "
                    "others are names or +"
                )
            self._templates.append(levels)

    def peid_of(self, topic: str) -> int | None:
        """The entity that a topic is about by the first rule that fits, if one does."""
        if not self._templates:
            return None
        levels = topic.split("/")
        for template in self._templates:
            if len(template) == len(levels):
                peid = _read(template, levels)
                if peid is not None:
                    return peid
        return None


def _read(template: list[str], levels: list[str]) -> int | None:
    peid: int | None = None
    for wanted, level in zip(template, levels, strict=True):
        if wanted == PLACEHOLDER:
            peid = parse_peid(level.encode())
        elif wanted not in ("+", level):
            return None
    return peid
