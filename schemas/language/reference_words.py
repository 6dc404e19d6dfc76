"""Says in words what the references of a neighborhood are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from schemas.errors import NoReferenceError
from schemas.language.neighborhood import Neighborhood, References
from schemas.language.places import place_words
from schemas.language.references import KEY, NAME, PLACE, quoted

_REFS_SHOWN: Final = 5


class Referent(NamedTuple):
    """A reference in words: where it stands alone, and in a list of entities."""

    alone: str
    listed: str
    is_place: bool = False


def referents(neighborhood: Neighborhood, names: Mapping[int, str] | None) -> tuple[Referent, ...]:
    """Return all references; ``names`` are known names of entities."""
    found: list[Referent] = []
    for peid in neighborhood.refs:
        name = (names or {}).get(peid)
        found.append(Referent(name or f"entity {peid}", name or str(peid)))
    found += [Referent(f"the entity with key {key}", f"key {key}") for key in neighborhood.keys]
    for name in map(quoted, neighborhood.names):
        found.append(Referent(f"the entity named {name}", name))
    for place in map(place_words, neighborhood.places):
        found.append(Referent(place, place, is_place=True))
    return tuple(found)


def references_in_words(refs: Sequence[Referent], at_least: str) -> str:
    """Return the references as the object of a condition; ``at_least`` stands before several."""
    if len(refs) == 1:
        return refs[0].alone
    with_places = any(ref.is_place for ref in refs)
    first = [ref.alone if with_places else ref.listed for ref in refs[:_REFS_SHOWN]]
    more = [f"{len(refs) - _REFS_SHOWN} more"] if len(refs) > _REFS_SHOWN else []
    what = "" if with_places else "the entities "
    return f"{at_least}one of {what}{listed(first + more, 'and')}"


def no_reference(neighborhood: Neighborhood, version: int) -> NoReferenceError:
    """Return the error for a neighborhood of which the version has no reference."""
    return NoReferenceError(missing_words(neighborhood), version)


def missing_words(missing: Neighborhood | References) -> tuple[int | str, ...]:
    """Return references for a list of those that do not exist: peids, and the others in words."""
    peids = missing.refs if isinstance(missing, Neighborhood) else missing.peids
    return (
        *peids,
        *(f"{KEY}:{key}" for key in missing.keys),
        *(f"{NAME}:{quoted(name)}" for name in missing.names),
        *map(place_words, missing.places),
    )


def missing_warning(missing: Sequence[int | str], version: int) -> str:
    """Return the warning about references that the version does not have."""
    return f"not in world version {version}: {', '.join(map(str, missing))}"


def named_texts(neighborhood: Neighborhood) -> list[str]:
    """Return keys, names and places in order, each with what it is in front (``key:way/1``)."""
    return [
        *(f"{KEY}:{key}" for key in sorted(neighborhood.keys)),
        *(f"{NAME}:{name}" for name in sorted(neighborhood.names)),
        *(f"{PLACE}:{place}" for place in sorted(neighborhood.places)),
    ]


def named_words(text: str) -> str:
    """Return one of the ``named_texts`` for a person."""
    kind, _, written = text.partition(":")
    if kind == PLACE:
        return place_words(written)
    return f"{NAME}:{quoted(written)}" if kind == NAME else text


def listed(items: Sequence[object], joint: str) -> str:
    """Return the items with commas, and the joint before the last one."""
    texts = [str(item) for item in items]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {joint} {texts[-1]}"
