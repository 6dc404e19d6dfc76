"""One level of a tree of topics, without a dictionary as long as it has one child."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Self

# What a level takes in memory with a short name, as measured.
LEVEL_BYTES: Final = 150


class Level:
    """Subclasses add what may stand at a level.

    Most levels have one child: long topics are chains. A dictionary would take three times as
    much as the level itself.
    """

    __slots__ = ("_many", "_name", "_only")

    def __init__(self) -> None:
        self._name: str | None = None
        self._only: Self | None = None
        self._many: dict[str, Self] | None = None

    def child(self, name: str) -> Self | None:
        """Return the level below with this name."""
        if self._many is not None:
            return self._many.get(name)
        return self._only if self._name == name else None

    def make(self, name: str) -> Self:
        """Add a level below, with a name that none has."""
        below = type(self)()
        if self._many is not None:
            self._many[name] = below
        elif self._only is None or self._name is None:
            self._name, self._only = name, below
        else:
            self._many = {self._name: self._only, name: below}
            self._name = self._only = None
        return below

    def drop(self, name: str) -> None:
        """Remove the level below with this name."""
        if self._many is None:
            self._name = self._only = None
            return
        del self._many[name]
        if not self._many:
            self._many = None

    @property
    def has_children(self) -> bool:
        """Whether there are levels below."""
        return self._only is not None or self._many is not None

    def children(self) -> Iterator[Self]:
        """Return the levels below, as they are now."""
        if self._many is not None:
            return iter(list(self._many.values()))
        return iter(() if self._only is None else (self._only,))

    def named_children(self) -> Iterator[tuple[str, Self]]:
        """Return the same with their names."""
        if self._many is not None:
            return zip(list(self._many), list(self._many.values()), strict=True)
        if self._only is None or self._name is None:
            return iter(())
        return iter(((self._name, self._only),))
