"""The neighborhood as an object: what JSON and the compact notation both turn into.

Objects of these classes are valid by construction of the two readers (``descriptor_json``,
``notation``); engines use ``written_out()`` alone and never see ``repeat`` or ``Prev``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from schemas.language.conditions import Condition

RefStages: TypeAlias = Literal["Prev", "Anc"] | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage as it is typed; ``ref_stages`` is None in the first stage alone."""

    categories: tuple[str, ...]
    condition: Condition
    ref_stages: RefStages | None = None
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class WrittenStage:
    """One stage after writing out: ``number`` counts from 1, ``ref_stages`` is explicit.

    Stage 1 has ``ref_stages == (0,)``: stage 0 is the descriptor's refs.
    """

    number: int
    ref_stages: tuple[int, ...]
    categories: tuple[str, ...]
    condition: Condition


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """References, stages and which written-out stages are visible."""

    refs: tuple[int, ...]
    stages: tuple[Stage, ...]
    visible: tuple[bool, ...]
    name: str | None = None

    def written_out(self) -> tuple[WrittenStage, ...]:
        """The stages with ``repeat``, ``Prev`` and ``Anc`` written out."""
        written: list[WrittenStage] = []
        for stage in self.stages:
            for _ in range(stage.repeat):
                number = len(written) + 1
                written.append(
                    WrittenStage(
                        number=number,
                        ref_stages=explicit_ref_stages(stage.ref_stages, number),
                        categories=stage.categories,
                        condition=stage.condition,
                    )
                )
        return tuple(written)


def explicit_ref_stages(ref_stages: RefStages | None, number: int) -> tuple[int, ...]:
    """The stage numbers that ``Prev`` and ``Anc`` stand for in stage ``number``."""
    match ref_stages:
        case None:
            return (0,)
        case "Prev":
            return tuple(range(1, number))
        case "Anc":
            return (number - 1,)
        case _:
            return ref_stages
