"""Topic patterns of access rules: what one covers, and client names inside one.

A topic name is a filter without wildcards, so one question serves both: does the pattern hold
everything that the name or filter stands for?
"""

from __future__ import annotations

from typing import Final, TypeAlias

from broker.codec.topics import FilterError, parse_filter
from broker.core.verdicts import Identity

Levels: TypeAlias = tuple[str, ...]

USER: Final = "%u"
CLIENT: Final = "%c"
# In a client's name these would change which topics a rule means.
UNSAFE: Final = frozenset("+#/")
MAX_LEVELS: Final = 200


def pattern_levels(pattern: str) -> Levels:
    """The levels of a well-formed pattern; FilterError says what is wrong with another."""
    if pattern.startswith("$share/"):
        raise FilterError("a shared subscription is judged by its filter: leave out $share/name/")
    parse_filter(pattern, MAX_LEVELS)
    return tuple(pattern.split("/"))


def covers(pattern: Levels, wanted: Levels) -> bool:
    """Whether every topic of ``wanted`` (a topic or a filter, in levels) is one of the pattern.

    Wildcards in the first level never reach topics that begin with ``$``.
    """
    if wanted[0].startswith("$") and pattern[0] in ("#", "+"):
        return False
    for at, level in enumerate(pattern):
        if level == "#":
            return True
        if at == len(wanted):
            return False
        if level == wanted[at]:
            continue
        if level != "+" or wanted[at] == "#":
            return False
    return len(pattern) == len(wanted)


def names_client(pattern: Levels) -> bool:
    """Whether the pattern means something else for each client."""
    return any(USER in level or CLIENT in level for level in pattern)


def for_client(pattern: Levels, client: Identity) -> Levels | None:
    """The pattern with the client's names in place; None when they cannot stand in a topic.

    A name with wildcard or slash could make the pattern mean other people's topics.
    """
    names = {USER: client.user_name, CLIENT: client.client_id}
    written: list[str] = []
    for level in pattern:
        for sign, name in names.items():
            if sign in level and (not name or not UNSAFE.isdisjoint(name)):
                return None
        # One pass over the template: a name that holds "%c" stays as it is.
        parts = level.split(USER)
        user_name = client.user_name or ""
        written.append(user_name.join(part.replace(CLIENT, client.client_id) for part in parts))
    return tuple(written)


def for_any_client(pattern: Levels) -> Levels:
    """The pattern for every client at once: what a denial means when names are unusable."""
    return tuple("+" if USER in level or CLIENT in level else level for level in pattern)
