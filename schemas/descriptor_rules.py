"""The rules that hold for a neighborhood however it was written, JSON or notation.

Both readers hand over what they read piece by piece; a violation names the written-out
number of the stage and says what is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemas.categories import checked_pattern
from schemas.conditions import Condition
from schemas.errors import DescriptorError
from schemas.limits import MAX_CATEGORY_PATTERNS, MAX_PEID, MAX_REFS, MAX_STAGES
from schemas.neighborhood import Neighborhood, RefStages, Stage

REFS_ALLOWED: Final = f"allowed: a non-empty list of integers 0 .. {MAX_PEID}"


def checked_text(text: str, what: str, stage: int | None = None) -> str:
    """The text, when it can travel in an MQTT string: no U+0000, no half of a character."""
    if "\0" in text:
        raise DescriptorError(f"{what} has the character U+0000; allowed: any other", stage)
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise DescriptorError(
            f"{what} has half of a surrogate pair; allowed: valid Unicode text", stage
        )
    return text


def checked_refs(refs: Sequence[int]) -> tuple[int, ...]:
    """The references, each once, in the order written."""
    for ref in refs:
        if not 0 <= ref <= MAX_PEID:
            raise DescriptorError(f"refs has {ref}; {REFS_ALLOWED}", 1)
    once = tuple(dict.fromkeys(refs))
    if not once:
        raise DescriptorError(f"refs is empty; {REFS_ALLOWED}", 1)
    if len(once) > MAX_REFS:
        raise DescriptorError(f"refs has {len(once)} peids; allowed: at most {MAX_REFS}", 1)
    return once


class StageCollector:
    """Takes the stages in order and knows the written-out number of the next one."""

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
        """Check one stage as it was written; None stands for what was left out."""
        stage = Stage(
            categories=self._checked_categories(categories),
            condition=condition,
            ref_stages=self.checked_ref_stages(ref_stages),
            repeat=self.checked_repeat(repeat),
        )
        self._stages.append(stage)
        self.number += stage.repeat

    def checked_ref_stages(self, ref_stages: RefStages | None) -> RefStages | None:
        """An explicit list ascending and each number once; Prev and Anc as they are."""
        number = self.number
        if number == 1:
            if ref_stages is not None:
                raise self.error("refStages is not allowed in stage 1, whose references are refs")
            return None
        allowed = f'allowed: "Prev", "Anc" or a non-empty list out of 1 .. {number - 1}'
        if ref_stages is None:
            raise self.error(f"refStages is missing; {allowed}")
        if ref_stages in ("Prev", "Anc"):
            return ref_stages
        for wanted in ref_stages:
            if not isinstance(wanted, int) or not 1 <= wanted < number:
                raise self.error(f"refStages has {wanted}; {allowed}")
        if not ref_stages:
            raise self.error(f"refStages is empty; {allowed}")
        return tuple(sorted({int(wanted) for wanted in ref_stages}))

    def checked_repeat(self, repeat: int | None) -> int:
        """How often the stage is written, within the limit of written-out stages."""
        number = self.number
        if number == 1 and repeat is not None:
            raise self.error("repeat is not allowed in stage 1; allowed: in stage 2 and later")
        count = 1 if repeat is None else repeat
        if count < 1:
            raise self.error(f"repeat is {count}; allowed: an integer of at least 1")
        if number + count - 1 > MAX_STAGES:
            raise self.error(
                f"the stages written out are more than {MAX_STAGES}; allowed: at most {MAX_STAGES}"
            )
        return count

    def _checked_categories(self, categories: Sequence[str]) -> tuple[str, ...]:
        allowed = f"allowed: 1 to {MAX_CATEGORY_PATTERNS} category patterns"
        if not categories:
            raise self.error(f"cats is empty; {allowed}")
        if len(categories) > MAX_CATEGORY_PATTERNS:
            raise self.error(f"cats has {len(categories)} patterns; {allowed}")
        number = self.number
        return tuple(
            dict.fromkeys(
                checked_pattern(checked_text(pattern, "a category pattern", number), number)
                for pattern in categories
            )
        )

    def error(self, message: str) -> DescriptorError:
        """An error of the stage that is being read."""
        return DescriptorError(message, self.number)

    def neighborhood(
        self, refs: tuple[int, ...], visible: Sequence[bool] | None, name: str | None
    ) -> Neighborhood:
        """All together, when every stage has been added."""
        count = self.number - 1
        if count == 0:
            raise DescriptorError("there is no stage; allowed: one or more stages", 1)
        shown = (True,) * count if visible is None else tuple(visible)
        if len(shown) != count:
            raise DescriptorError(
                f"visible has {len(shown)} values; allowed: one for each of the "
                f"{count} written-out stages",
                min(len(shown) + 1, count + 1),
            )
        if not any(shown):
            raise DescriptorError(
                f"visible shows none of the stages 1 .. {count}; allowed: at least one true", count
            )
        if name is not None:
            checked_text(name, "name")
        return Neighborhood(refs=refs, stages=tuple(self._stages), visible=shown, name=name)
