"""Trees of topic filters and of topics with retained messages, by their levels.

Matching a topic costs what its levels and its matches cost: filters that differ from it are not
looked at beyond the level where they do. Nothing here is recursive: a deep topic costs time, never
stack.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Self

from broker.core.subscribe.subscription import FilterEntry

if TYPE_CHECKING:
    from broker.core.message import Message

# What a level takes in memory with a short name, as measured.
LEVEL_BYTES: Final = 150
# So many children of a level with retained messages are put in order each time.
FEW_CHILDREN: Final = 64


class Level:
    """A level of topics or filters; subclasses add what may stand there.

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


class RetainedLevel(Level):
    """One level of some topics; ``message`` belongs to the topic that ends here.

    ``born`` is the number of the first message since there is one, ``made`` that of the message
    for which the level was made.
    """

    __slots__ = ("_order", "born", "made", "message")

    def __init__(self) -> None:
        super().__init__()
        self.message: Message | None = None
        self.born = 0
        self.made = 0
        # The children in order, when they are many.
        self._order: list[RetainedLevel | int] | None = None

    def add(self, name: str, number: int) -> RetainedLevel:
        """Add a level below, with a number higher than those of all others."""
        below = self.make(name)
        below.made = number
        if self._order is not None:
            self._order.append(below)
        elif self.many is not None and len(self.many) > FEW_CHILDREN:
            # A dictionary keeps the order in which children were made.
            self._order = list(self.many.values())
        return below

    def drop(self, name: str) -> None:
        """Remove the level below with this name."""
        gone = self.child(name)
        super().drop(name)
        order = self._order
        if self.many is None:
            self._order = None
        if order is None or self.many is None or gone is None:
            return
        order[bisect_left(order, gone.made, key=_made)] = gone.made
        if len(self.many) <= FEW_CHILDREN // 2:
            self._order = None
        elif len(order) > 2 * len(self.many):
            self._order = list(self.many.values())

    def made_after(self, number: int, most: int) -> Iterator[RetainedLevel | int]:
        """Return the next children made after a number, in order; of a removed one its number."""
        order = self._order
        if order is None:
            return iter([one for one in self.children() if one.made > number])
        place = bisect_right(order, number, key=_made)
        return iter(order[place : place + most])


def _made(child: RetainedLevel | int) -> int:
    return child if isinstance(child, int) else child.made


class _Level(Level):
    """One level of some filters: ``exact`` ends here, ``rest`` ends with ``#`` below here."""

    __slots__ = ("exact", "rest")

    def __init__(self) -> None:
        super().__init__()
        self.exact: FilterEntry | None = None
        self.rest: FilterEntry | None = None

    @property
    def is_empty(self) -> bool:
        return not self.has_children and self.exact is None and self.rest is None


class TopicTree:
    """Filter entries by topic filter."""

    __slots__ = ("_count", "_root", "visited")

    def __init__(self) -> None:
        self._root = _Level()
        # Levels that were looked at by all searches so far.
        self.visited = 0
        self._count = 0

    def __len__(self) -> int:
        """Return the number of filters."""
        return self._count

    def find(self, topic_filter: str) -> FilterEntry | None:
        """Return the entry of a filter, if it is there."""
        level: _Level | None = self._root
        names, is_open = _split(topic_filter)
        for name in names:
            level = level.child(name) if level is not None else None
        if level is None:
            return None
        return level.rest if is_open else level.exact

    def entry_of(self, topic_filter: str) -> FilterEntry:
        """Return the entry of a filter, made if it is not there."""
        level = self._root
        names, is_open = _split(topic_filter)
        for name in names:
            level = level.child(name) or level.make(name)
        entry = level.rest if is_open else level.exact
        if entry is None:
            entry = FilterEntry(topic_filter)
            self._count += 1
            if is_open:
                level.rest = entry
            else:
                level.exact = entry
        return entry

    def remove(self, topic_filter: str) -> None:
        """Remove a filter, and every level that only it needed."""
        names, is_open = _split(topic_filter)
        path = [self._root]
        for name in names:
            below = path[-1].child(name)
            if below is None:
                raise KeyError(topic_filter)
            path.append(below)
        if is_open:
            path[-1].rest = None
        else:
            path[-1].exact = None
        self._count -= 1
        for above, name, level in zip(path[-2::-1], names[::-1], path[::-1], strict=False):
            if not level.is_empty:
                break
            above.drop(name)

    def match(self, topic: str) -> Iterator[FilterEntry]:
        """Yield the entries of all filters that match a topic name."""
        # A wildcard at the first level does not match $SYS and its like.
        reserved = topic.startswith("$")
        frontier = [self._root]
        for depth, name in enumerate(topic.split("/")):
            wild = depth > 0 or not reserved
            self.visited += len(frontier)
            following: list[_Level] = []
            for level in frontier:
                if wild and level.rest is not None:
                    yield level.rest
                below = level.child(name)
                if below is not None:
                    following.append(below)
                if wild and (below := level.child("+")) is not None:
                    following.append(below)
            if not following:
                return
            frontier = following
        for level in frontier:
            if level.exact is not None:
                yield level.exact
            if level.rest is not None:
                yield level.rest


def _split(topic_filter: str) -> tuple[list[str], bool]:
    """Return the levels of a filter without a final ``#``, and whether there was one."""
    names = topic_filter.split("/")
    if names[-1] == "#":
        return names[:-1], True
    return names, False
