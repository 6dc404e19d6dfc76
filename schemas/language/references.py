"""Collects the references of a neighborhood, checks their rules, and says them in words.

A reference is a peid, a key, a name or a place. Keys and names stand for entities: they become
peids when the world version is known (``spatial_udfs/entity_keys.py``). A place is no entity.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemas.entity import key_fault
from schemas.errors import DescriptorError, NotationError
from schemas.language.descriptor_rules import LONGEST_INTEGER, checked_text, shown
from schemas.language.limits import MAX_NAME_CHARACTERS, MAX_PEID, MAX_REFS
from schemas.language.neighborhood import Neighborhood, References
from schemas.language.places import Place, place_of_geometry, place_of_text, place_words

KEY: Final = "key"
NAME: Final = "name"
PLACE: Final = "at"
REFS_ALLOWED: Final = (
    f"allowed: a non-empty list of peids (integers 0 .. {MAX_PEID}), "
    f'{{"{KEY}": …}}, {{"{NAME}": …}} and {{"{PLACE}": …}}'
)
# Keys printed without quotes: they have no space and no character that ends a reference.
_PLAIN: Final = re.compile(r"""[^\s,{}()"';•]+""")
# A sentence names so many references.
_REFS_SHOWN: Final = 5


class ReferenceCollector:
    """Collects references in the order written, each once; errors name stage 1."""

    def __init__(self) -> None:
        self._peids: dict[int, None] = {}
        self._keys: dict[str, None] = {}
        self._names: dict[str, None] = {}
        self._places: dict[str, None] = {}

    def add_peid(self, peid: int) -> None:
        """Add an entity by its number."""
        if not 0 <= peid <= MAX_PEID:
            raise DescriptorError(f"refs has {shown(peid)}; {REFS_ALLOWED}", 1)
        self._peids[peid] = None

    def add_key(self, key: str) -> None:
        """Add an entity by its key; space around it does not belong to it."""
        key = checked_text(key, "a key", 1).strip()
        fault = key_fault(key)
        if fault is not None:
            raise DescriptorError(f"a key in refs {fault}; allowed: the key of an entity", 1)
        self._keys[key] = None

    def add_name(self, name: str) -> None:
        """Add an entity by its name."""
        name = checked_text(name, "a name", 1)
        if not name.strip() or len(name) > MAX_NAME_CHARACTERS:
            fault = "is empty" if not name.strip() else f"has {len(name)} characters"
            raise DescriptorError(
                f"a name in refs {fault}; allowed: 1 to {MAX_NAME_CHARACTERS} characters", 1
            )
        self._names[name] = None

    def add_place(self, place: Place) -> None:
        """Add a place."""
        self._places[place.text] = None

    def add_object(self, reference: Mapping[Any, Any]) -> None:
        """Add a reference that is written as an object with one key."""
        kind = next(iter(reference), None)
        value = reference.get(kind)
        if len(reference) == 1 and kind == PLACE:
            self.add_place(_place(value))
        elif len(reference) == 1 and kind == KEY and isinstance(value, str):
            self.add_key(value)
        elif len(reference) == 1 and kind == NAME and isinstance(value, str):
            self.add_name(value)
        elif len(reference) == 1 and kind in (KEY, NAME):
            raise DescriptorError(
                f'the {kind} of a reference is {shown(value)}; allowed: a text, {{"{kind}": "…"}}',
                1,
            )
        else:
            keys = ", ".join(repr(str(key)[:40]) for key in list(reference)[:4])
            raise DescriptorError(f"refs has an object with {keys or 'no key'}; {REFS_ALLOWED}", 1)

    def references(self) -> References:
        """Return all that were added."""
        found = References(
            tuple(self._peids), tuple(self._keys), tuple(self._names), tuple(self._places)
        )
        count = sum(map(len, found))
        if not count:
            raise DescriptorError(f"refs is empty; {REFS_ALLOWED}", 1)
        if count > MAX_REFS:
            raise DescriptorError(f"refs has {count} references; allowed: at most {MAX_REFS}", 1)
        return found


def peid_of(ref: object) -> int:
    """Return the peid that an integer or a decimal string is."""
    if type(ref) is int:
        return ref
    if isinstance(ref, str) and ref.isascii() and ref.isdigit():
        significant = ref.lstrip("0") or "0"
        if len(significant) <= LONGEST_INTEGER:
            return int(significant)
    raise DescriptorError(f"refs has {shown(ref)}; {REFS_ALLOWED}", 1)


def _place(value: object) -> Place:
    if isinstance(value, Mapping):
        return place_of_geometry(value)
    if not isinstance(value, str):
        raise DescriptorError(
            f"{PLACE} is {shown(value)}; allowed: WKT as a string, or a GeoJSON geometry", 1
        )
    try:
        return place_of_text(value)
    except NotationError as error:
        raise NotationError(value, error.position, error.expected, 1, PLACE) from None


def reference_texts(neighborhood: Neighborhood) -> Iterator[str]:
    """Yield all references as they stand in the compact notation."""
    yield from map(str, neighborhood.refs)
    for key in neighborhood.keys:
        yield f"{KEY}:{key if _PLAIN.fullmatch(key) else quoted(key)}"
    for name in neighborhood.names:
        yield f"{NAME}:{quoted(name)}"
    for place in neighborhood.places:
        yield f"{PLACE}:{place}"


def quoted(text: str) -> str:
    """Return the text in double quotes, as a JSON string."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


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
