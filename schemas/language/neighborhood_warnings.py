"""What is legal in a neighborhood but surely not meant: stages that have no member anywhere."""

from __future__ import annotations

from schemas.language.condition_printer import condition_text
from schemas.language.conditions import And, Condition, Not, Or, Topological
from schemas.language.neighborhood import Neighborhood, explicit_ref_stages
from schemas.topology.satisfiability import unsatisfiable


def neighborhood_warnings(neighborhood: Neighborhood) -> tuple[str, ...]:
    """One line for each stage, as typed, that is empty in every world, and why."""
    warnings: list[str] = []
    always_empty: set[int] = set()
    number = 1
    for stage in neighborhood.stages:
        copies = range(number, number + stage.repeat)
        number += stage.repeat
        hopeless = unsatisfiable(stage.condition)
        empty = [
            copy
            for copy in copies
            if hopeless or always_empty.issuperset(explicit_ref_stages(stage.ref_stages, copy))
        ]
        always_empty.update(empty)
        if hopeless:
            warnings.append(f"{_stages(copies)}: {_hopeless(stage.condition)}")
        elif empty:
            warnings.append(f"{_stages(copies)}: always empty, because every stage it refers to is")
    return tuple(warnings)


def _stages(copies: range) -> str:
    if len(copies) == 1:
        return f"stage {copies[0]}"
    return f"stages {copies[0]} to {copies[-1]}"


def _hopeless(condition: Condition) -> str:
    text = f"always empty, because no pair of geometries can satisfy {condition_text(condition)}"
    meant = _with_border(condition)
    if meant != condition and not unsatisfiable(meant):
        text += f" (T excludes common interior points; {condition_text(meant)} does not)"
    return text


def _with_border(condition: Condition) -> Condition:
    """B for T: who asks for "inside and touching" means "inside and at the border"."""
    match condition:
        case Topological("T"):
            return Topological("B")
        case Not(operand):
            return Not(_with_border(operand))
        case And(operands):
            return And(tuple(_with_border(operand) for operand in operands))
        case Or(operands):
            return Or(tuple(_with_border(operand) for operand in operands))
        case _:
            return condition
