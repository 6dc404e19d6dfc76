"""Reads the neighborhood descriptor from JSON, strictly.

An unknown key, a Boolean in place of a number or a key written twice is an error that names the
stage and what is allowed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from schemas.errors import DescriptorError, NotationError
from schemas.language.condition_parser import parse_condition
from schemas.language.conditions import Condition
from schemas.language.descriptor_rules import (
    LONGEST_INTEGER,
    StageCollector,
    shown,
)
from schemas.language.limits import MAX_DESCRIPTOR_BYTES
from schemas.language.neighborhood import Neighborhood, References, RefStages
from schemas.language.references import REFS_ALLOWED, ReferenceCollector, peid_of

_TOO_LARGE: Final = 10**LONGEST_INTEGER


class _Object(dict[str, Any]):
    """A JSON object that keeps a key that was written twice."""

    __slots__ = ("twice",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice: str | None = None
        if len(self) < len(pairs):
            self.twice = Counter(key for key, _ in pairs).most_common(1)[0][0]


def _integer(digits: str) -> int:
    """Return the number; one with far too many digits becomes another that no rule allows."""
    if len(digits) <= LONGEST_INTEGER:
        return int(digits)
    return -_TOO_LARGE if digits.startswith("-") else _TOO_LARGE


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_Object, parse_int=_integer)


def decoded(source: str | bytes, max_bytes: int) -> object:
    """Return the value of a JSON text in UTF-8; Python alone would accept UTF-16 as well."""
    try:
        data = source.encode() if isinstance(source, str) else source
        check_bytes(len(data), max_bytes)
        return _DECODER.decode(data.decode())
    except UnicodeError:
        raise DescriptorError("the descriptor is not valid UTF-8; allowed: JSON in UTF-8") from None
    except json.JSONDecodeError as error:
        raise DescriptorError(
            f"the descriptor is not JSON: at character {error.pos + 1}: {error.msg}; "
            "allowed: one JSON object"
        ) from None
    except RecursionError:
        raise DescriptorError(
            "the descriptor is nested too deeply; allowed: an object with a list of stage objects"
        ) from None


def key_written_twice(entry: Mapping[Any, Any]) -> str | None:
    """Return a key that the JSON text has twice; Python alone would keep the last."""
    return entry.twice if isinstance(entry, _Object) else None


def check_bytes(size: int, max_bytes: int) -> None:
    """Raise DescriptorError for a descriptor that is longer than its limit."""
    if size > max_bytes:
        raise DescriptorError(f"the descriptor has {size} bytes; allowed: at most {max_bytes}")


_KEYS: Final = ("name", "refs", "stages", "visible")
_STAGE_KEYS: Final = ("refStages", "cats", "cond", "repeat")


def parse_descriptor(source: str | bytes | Mapping[str, Any]) -> Neighborhood:
    """Return the neighborhood of a JSON text or of the decoded object."""
    if isinstance(source, str | bytes):
        neighborhood = _neighborhood(decoded(source, MAX_DESCRIPTOR_BYTES))
        if neighborhood.places:
            # The canonical form of a place can be longer than what was written.
            check_size(neighborhood)
        return neighborhood
    neighborhood = _neighborhood(source)
    if not _surely_fits(neighborhood, source):
        check_size(neighborhood)
    return neighborhood


def check_size(neighborhood: Neighborhood) -> None:
    """Raise DescriptorError if the descriptor does not fit into one MQTT string."""
    check_bytes(len(neighborhood.to_json().encode()), MAX_DESCRIPTOR_BYTES)


def _surely_fits(neighborhood: Neighborhood, source: Mapping[str, Any]) -> bool:
    """Return whether a quick bound proves that the descriptor fits into one MQTT string.

    A character takes at most 6 bytes in JSON, a peid 20; the rest of a stage less than 300. The
    bound saves time because bulk runs read hundreds of thousands of objects.
    """
    characters = len(neighborhood.name or "") + sum(
        len(stage["cond"]) + sum(map(len, stage["cats"])) + 3 * len(stage["cats"])
        for stage in source["stages"]
    )
    characters += sum(map(len, neighborhood.keys + neighborhood.names + neighborhood.places))
    count = sum(map(len, (neighborhood.refs, neighborhood.keys, neighborhood.names)))
    rest = 20 * (count + len(neighborhood.places)) + 300 * len(neighborhood.visible)
    return 6 * characters + rest < MAX_DESCRIPTOR_BYTES


def _neighborhood(descriptor: object) -> Neighborhood:
    if not isinstance(descriptor, Mapping):
        raise DescriptorError(
            f"the descriptor is {shown(descriptor)}; allowed: an object with refs and stages"
        )
    _check_keys(descriptor, _KEYS, ("refs", "stages"), None)
    refs = _refs(descriptor["refs"])
    stages = descriptor["stages"]
    if not _is_list(stages) or not stages:
        raise DescriptorError(
            f"stages is {shown(stages)}; allowed: a non-empty list of stage objects", 1
        )
    collector = StageCollector()
    for stage in stages:
        _read_stage(stage, collector)
    visible = _visible(descriptor["visible"]) if "visible" in descriptor else None
    name = descriptor.get("name")
    if "name" in descriptor and not isinstance(name, str):
        raise DescriptorError(f"name is {shown(name)}; allowed: a string")
    return collector.neighborhood(refs, visible, name)


def _check_keys(
    entry: Mapping[Any, Any], known: tuple[str, ...], required: tuple[str, ...], stage: int | None
) -> None:
    for key in entry:
        if key not in known:
            raise DescriptorError(f"unknown key {shown(key)}; allowed: {', '.join(known)}", stage)
    twice = key_written_twice(entry)
    if twice is not None:
        raise DescriptorError(f"{twice} is written twice; allowed: each key once", stage)
    for key in required:
        if key not in entry:
            raise DescriptorError(
                f"{key} is missing; allowed: {', '.join(known)}, of which "
                f"{' and '.join(required)} are required",
                stage,
            )


def _refs(refs: object) -> References:
    if not _is_list(refs):
        raise DescriptorError(f"refs is {shown(refs)}; {REFS_ALLOWED}", 1)
    collector = ReferenceCollector()
    for ref in refs:
        if isinstance(ref, Mapping):
            twice = key_written_twice(ref)
            if twice is not None:
                raise DescriptorError(f"{twice} is written twice; allowed: each key once", 1)
            collector.add_object(ref)
        else:
            collector.add_peid(peid_of(ref))
    return collector.references()


def _read_stage(stage: object, collector: StageCollector) -> None:
    if not isinstance(stage, Mapping):
        raise collector.error(f"it is {shown(stage)}; allowed: an object with cats and cond")
    _check_keys(stage, _STAGE_KEYS, ("cats", "cond"), collector.number)
    collector.add(
        categories=_categories(stage["cats"], collector),
        condition=_condition(stage["cond"], collector),
        ref_stages=_ref_stages(stage["refStages"], collector) if "refStages" in stage else None,
        repeat=_repeat(stage["repeat"], collector) if "repeat" in stage else None,
    )


def _categories(categories: object, collector: StageCollector) -> Sequence[str]:
    allowed = "allowed: a non-empty list of category patterns such as road/#"
    if not _is_list(categories):
        raise collector.error(f"cats is {shown(categories)}; {allowed}")
    for pattern in categories:
        if not isinstance(pattern, str):
            raise collector.error(f"cats has {shown(pattern)}; {allowed}")
    return categories


def _condition(condition: object, collector: StageCollector) -> Condition:
    if not isinstance(condition, str):
        raise collector.error(f"cond is {shown(condition)}; allowed: a string such as C AND B")
    try:
        return parse_condition(condition)
    except NotationError as error:
        raise NotationError(
            condition, error.position, error.expected, collector.number, "cond"
        ) from None


def _ref_stages(ref_stages: object, collector: StageCollector) -> RefStages:
    allowed = 'allowed: "Prev", "Anc" or a list of stage numbers'
    if ref_stages == "Prev":
        return "Prev"
    if ref_stages == "Anc":
        return "Anc"
    if not _is_list(ref_stages):
        raise collector.error(f"refStages is {shown(ref_stages)}; {allowed}")
    for number in ref_stages:
        if type(number) is not int:
            raise collector.error(f"refStages has {shown(number)}; {allowed}")
    return tuple(ref_stages)


def _repeat(repeat: object, collector: StageCollector) -> int:
    if type(repeat) is not int:
        raise collector.error(f"repeat is {shown(repeat)}; allowed: an integer of at least 1")
    return repeat


def _visible(visible: object) -> Sequence[bool]:
    if not _is_list(visible):
        raise DescriptorError(
            f"visible is {shown(visible)}; allowed: a list with true or false for each stage"
        )
    for number, flag in enumerate(visible, start=1):
        if type(flag) is not bool:
            raise DescriptorError(f"visible has {shown(flag)}; allowed: true or false", number)
    return visible


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)
