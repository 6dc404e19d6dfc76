"""A search for retained messages that can be interrupted and continued after changes.

It remembers one level of the tree and one number for each level of depth, however many topics
there are: the children of a level are kept in the order in which they were made.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from broker.core.message import Message
from broker.core.subscribe.topic_tree import Level

# So many children are put in order each time.
FEW_CHILDREN: Final = 64


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


class RetainedSearch:
    """Finds the levels of all topics that a filter matches, in no particular order.

    What was there when it was begun and is there still is found, and nothing that came later.
    """

    __slots__ = ("_filter", "_last", "_levels", "_numbers")

    def __init__(self, root: RetainedLevel, topic_filter: str, last: int) -> None:
        """``last`` is the number of the last message that is to be found."""
        self._filter = topic_filter
        self._last = last
        # The path to the present level, and which child of each was looked at last.
        self._levels = [root]
        self._numbers = [0]

    @property
    def depth(self) -> int:
        """The number of levels that it remembers; 0 when all was seen."""
        return len(self._levels)

    def next_levels(self, steps: int) -> tuple[list[RetainedLevel], int]:
        """Look at so many levels; return those with a message, and the steps not needed."""
        names = self._filter.split("/")
        levels, numbers, last = self._levels, self._numbers, self._last
        # From one depth on every level matches, or only those of another depth do.
        depth = len(names)
        open_from = depth - 1 if names[-1] == "#" else depth + 1
        # The children that are left of levels with many, as far as this call has come to them.
        rests: list[Iterator[RetainedLevel | int] | None] = [None] * len(levels)
        found: list[RetainedLevel] = []
        while levels and steps:
            at = len(levels) - 1
            if at < open_from and names[at] != "+":
                below = _unseen(levels[-1].child(names[at]), numbers[-1])
            elif levels[-1].many is None:
                below = _unseen(levels[-1].only, numbers[-1])
            else:
                rest = rests[-1] = rests[-1] or levels[-1].made_after(numbers[-1], steps)
                below = next(rest, None)
            if below is None:
                del levels[-1], numbers[-1], rests[-1]
                continue
            steps -= 1
            if isinstance(below, int):
                numbers[-1] = below
                continue
            numbers[-1] = below.made
            is_match = at + 1 == depth or at + 1 >= open_from
            if is_match and below.message is not None and below.born <= last:
                found.append(below)
            if below.has_children and (at + 1 < depth or at + 1 >= open_from):
                levels.append(below)
                numbers.append(0)
                rests.append(None)
        return found, steps


def _unseen(child: RetainedLevel | None, number: int) -> RetainedLevel | int | None:
    """Return a child if it was made after a number."""
    return None if child is None or child.made <= number else child
