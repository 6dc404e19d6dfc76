"""Gateway rules: topics that name the entity, for publishers that cannot set properties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from broker.codec.publish import parse_peid
from schemas.errors import Mistakes

PEID: Final = "{peid}"
KEY: Final = "{key}"
_PLACEHOLDERS: Final = (PEID, KEY)


class GatewayRules:
    """Topic templates such as ``sensor/{peid}/temperature``; ``+`` stands for any one level.

    A level ``{key}`` has the key of an entity. Characters that a topic level cannot have are
    percent-encoded there, as in URLs: ``way%2F123%232`` is the key ``way/123#2``.
    """

    __slots__ = ("_templates",)

    def __init__(self, templates: Sequence[str] = (), *, has_world: bool = True) -> None:
        """Check the rules; SettingsError names those that cannot work."""
        self._templates: list[list[str]] = []
        mistakes = Mistakes()
        for template in templates:
            levels = template.split("/")
            named = [level for level in levels if level in _PLACEHOLDERS]
            wrong = [level for level in levels if "{" in level and level not in _PLACEHOLDERS]
            if len(named) != 1 or wrong or "#" in template:
                mistakes.append(
                    f"gateway rule {template!r}: exactly one level must be {PEID} or {KEY}, "
                    "others are names or +"
                )
            if KEY in named and not has_world:
                mistakes.append(
                    f"gateway rule {template!r}: keys are those of a world, and "
                    "broker.memberships = none loads none"
                )
            self._templates.append(levels)
        mistakes.check()

    def entity_of(self, topic: str) -> int | str | None:
        """Return the peid or the key that a topic has by the first rule that fits, if one does."""
        if not self._templates:
            return None
        levels = topic.split("/")
        for template in self._templates:
            if len(template) == len(levels):
                entity = _entity_in(template, levels)
                if entity is not None:
                    return entity
        return None


def _entity_in(template: list[str], levels: list[str]) -> int | str | None:
    entity: int | str | None = None
    for expected, level in zip(template, levels, strict=True):
        if expected == PEID:
            entity = parse_peid(level.encode())
        elif expected == KEY:
            entity = unquote(level) or None
        elif expected not in ("+", level):
            return None
    return entity


def contradiction(gateway_peid: int | None, peid: int | None) -> str | None:
    """Return why a ``peid`` property contradicts the topic, or None."""
    if gateway_peid is None or peid is None or peid == gateway_peid:
        return None
    return f"the topic is about entity {gateway_peid}, the peid property says {peid}"
