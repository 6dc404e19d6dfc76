"""One level of a tree of topics, without a dictionary as long as it has one child."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Self

# What a level takes in memory with a short name, as measured.
LEVEL_BYTES: Final = 150


class Level:
    """Subclasses add what may stand at a level.

    Most levels have one child, ``only``: long topics are chains. A dictionary, ``many``, would
    take three times as much as the level itself.
    """

    __slots__ = ("_name", "many", "only")

    def __init__(self) -> None:
        self._name: str | None = None
        self.only: Self | None = None
        self.many: dict[str, Self] | None = None

    def child(self, name: str) -> Self | None:
        """Return the level below with this name."""
        if self.many is not None:
            return self.many.get(name)
        return self.only if self._name == name else None

    def make(self, name: str) -> Self:
        """Add a level below, with a name that none has."""
        below = type(self)()
        if self.many is not None:
            self.many[name] = below
        elif self.only is None or self._name is None:
            self._name, self.only = name, below
        else:
            self.many = {self._name: self.only, name: below}
            self._name = self.only = None
        return below

    def drop(self, name: str) -> None:
        """Remove the level below with this name."""
        if self.many is None:
            self._name = self.only = None
            return
        del self.many[name]
        if not self.many:
            self.many = None

    @property
    def has_children(self) -> bool:
        """Whether there are levels below."""
        return self.only is not None or self.many is not None

    def children(self) -> Iterator[Self]:
        """Return the levels below, as they are now."""
        if self.many is not None:
            return iter(list(self.many.values()))
        return iter(() if self.only is None else (self.only,))
