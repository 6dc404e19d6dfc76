"""Parts of an extract as text in OPL, osmium's format of one line for each element.

Parts that Spark has put together go through the reader of whole extracts that way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

Tags = Iterable[tuple[str, str]]
_SPECIAL: Final = re.compile(r"[^0-9A-Za-z_:.\-]")


def node_line(node: int, x: int | None, y: int | None, tags: Tags = ()) -> str:
    """Return a node whose place is given in steps of 1e-7 degrees, or is not known."""
    place = "x y" if x is None else f"x{x}e-7 y{y}e-7"
    return f"n{node} {place} T{_tag_text(tags)}"


def way_line(way: int, tags: Tags, nodes: Sequence[int]) -> str:
    """Return a way with its nodes."""
    return f"w{way} T{_tag_text(tags)} N{','.join([f'n{node}' for node in nodes])}"


def relation_line(relation: int, tags: Tags, ways: Iterable[tuple[int, str]]) -> str:
    """Return a relation with its ways, each with its role."""
    members = ",".join(f"w{way}@{_escaped(role)}" for way, role in ways)
    return f"r{relation} T{_tag_text(tags)} M{members}"


def in_order(lines: Mapping[int, str]) -> list[str]:
    """Return lines by id in the order that osmium wants: negative ids first, by their size."""
    return [lines[number] for number in sorted(lines, key=lambda each: (each > 0, abs(each)))]


def _tag_text(tags: Tags) -> str:
    return ",".join([f"{_escaped(key)}={_escaped(value)}" for key, value in tags])


@lru_cache(maxsize=65_536)
def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):x}%", text)
