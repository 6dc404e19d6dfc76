"""Checks the rules of a neighborhood, whether it was written as JSON or as notation.

Both readers pass in one part at a time. The error of a violation names the written-out number of
the stage and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from schemas.errors import DescriptorError, quoted_text
from schemas.language.categories import checked_pattern
from schemas.language.conditions import Condition
from schemas.language.limits import MAX_CATEGORY_PATTERNS, MAX_STAGES
from schemas.language.neighborhood import Neighborhood, References, RefStages, Stage

# Numbers with more digits are out of every range, and Python refuses to convert very long ones.
LONGEST_INTEGER: Final = 20
_JSON_WORDS: Final = {"None": "null", "True": "true", "False": "false"}


def shown(value: object) -> str:
    """Return any value as a short line for an error text; what cannot be printed is escaped."""
    match value:
        case None | bool() | float():
            text = _JSON_WORDS.get(str(value), str(value))
        case int():
            text = str(value) if value.bit_length() <= 64 else "an integer that is too large"
        case str():
            text = quoted_text(value if len(value) <= 40 else value[:37] + "...")
        case Mapping():
            text = "an object"
        case list() | tuple():
            text = f"a list of {len(value)}"
        case _:
            text = f"a {type(value).__name__}"
    return text


def checked_text(text: str, what: str, stage: int | None = None) -> str:
    """Return the text; DescriptorError if an MQTT string cannot hold it (U+0000, surrogates)."""
    if "\0" in text:
        raise DescriptorError(f"{what} has the character U+0000; allowed: any other", stage)
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise DescriptorError(
            f"{what} has half of a surrogate pair; allowed: valid Unicode text", stage
        )
    return text


class StageCollector:
    """Collects the stages in order, and counts the written-out ones."""

    def __init__(self) -> None:
        self._stages: list[Stage] = []
        self.number = 1

    def add(
        self,
        categories: Sequence[str],
        condition: Condition,
        ref_stages: RefStages | None,
        repeat: int | None,
    ) -> None:
        """Check and add one stage as typed; None stands for a part that was left out."""
        stage = Stage(
            categories=self._checked_categories(categories),
            condition=condition,
            ref_stages=self._checked_ref_stages(ref_stages),
            repeat=self._checked_repeat(repeat),
        )
        self._stages.append(stage)
        self.number += stage.repeat

    def error(self, message: str) -> DescriptorError:
        """Return an error about the next stage."""
        return DescriptorError(message, self.number)

    def neighborhood(
        self, refs: References, visible: Sequence[bool] | None, name: str | None
    ) -> Neighborhood:
        """Return the neighborhood of all added stages."""
        count = self.number - 1
        flags = (True,) * count if visible is None else tuple(visible)
        if len(flags) != count:
            raise DescriptorError(
                f"visible has {len(flags)} values; allowed: one for each of the "
                f"{count} written-out stages",
                min(len(flags), count) + 1,
            )
        if not any(flags):
            raise DescriptorError(
                f"visible shows none of the stages 1 .. {count}; allowed: at least one true"
            )
        if name is not None:
            checked_text(name, "name")
        return Neighborhood(
            refs=refs.peids,
            stages=tuple(self._stages),
            visible=flags,
            name=name,
            keys=refs.keys,
            names=refs.names,
            places=refs.places,
        )

    def _checked_ref_stages(self, ref_stages: RefStages | None) -> RefStages | None:
        """Return an explicit list in ascending order, each number once; Prev and Anc unchanged."""
        number = self.number
        allowed = f'allowed: "Prev", "Anc" or a non-empty list out of 1 .. {number - 1}'
        match ref_stages:
            case None if number == 1:
                return None
            case None:
                raise self.error(f"refStages is missing; {allowed}")
            case _ if number == 1:
                raise self.error("refStages is not allowed in stage 1, whose references are refs")
            case "Prev" | "Anc":
                return ref_stages
            case ():
                raise self.error(f"refStages is empty; {allowed}")
        for wanted in ref_stages:
            if not 1 <= wanted < number:
                raise self.error(f"refStages has {shown(wanted)}; {allowed}")
        return tuple(sorted(set(ref_stages)))

    def _checked_repeat(self, repeat: int | None) -> int:
        """Return how often the stage is written out, within the limit of stages."""
        if repeat is not None and self.number == 1:
            raise self.error("repeat is not allowed in stage 1; allowed: in stage 2 and later")
        count = 1 if repeat is None else repeat
        if count < 1:
            raise self.error(f"repeat is {shown(count)}; allowed: an integer of at least 1")
        if self.number + count - 1 > MAX_STAGES:
            raise self.error(
                f"with repeat {shown(count)} there are too many written-out stages; "
                f"allowed: at most {MAX_STAGES}"
            )
        return count

    def _checked_categories(self, categories: Sequence[str]) -> tuple[str, ...]:
        allowed = f"allowed: 1 to {MAX_CATEGORY_PATTERNS} category patterns"
        if not categories:
            raise self.error(f"cats is empty; {allowed}")
        if len(categories) > MAX_CATEGORY_PATTERNS:
            raise self.error(f"cats has {len(categories)} patterns; {allowed}")
        stage = self.number
        return tuple(
            dict.fromkeys(
                checked_pattern(checked_text(pattern, "a category pattern", stage), stage)
                for pattern in categories
            )
        )
