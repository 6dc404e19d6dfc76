"""Topic rules from a file, in the language of Mosquitto's ACL files.

```
# until the first "user" line: clients without a user name
topic read public/#
user alice
topic readwrite home/alice/#      read, write, readwrite (also when left out) or deny
topic deny home/alice/diary
pattern write sensors/%c/#        for every client; %c its client id, %u its user name
neighborhood read old-town        a named neighborhood: read (also when left out) or deny; # for all
pattern neighborhood read home-%u
```
What no rule allows is refused, and ``deny`` beats every other rule. Reading a filter needs a
rule that covers all of it; each delivery is judged by its topic again. A topic name is a filter
without wildcards, so ``covers`` answers for both. Without lines about neighborhoods each client
may use every name; with them, a name needs a rule that allows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from broker.codec.fields import FilterError, parse_filter
from broker.codec.reason_codes import ReasonCode
from broker.core.verdicts import Action, Identity, Verdict
from schemas.errors import Mistakes
from schemas.named_neighborhood import NAME_FORM, NAME_PREFIX, is_name
from schemas.settings import read_text

Levels: TypeAlias = tuple[str, ...]

USER: Final = "%u"
CLIENT: Final = "%c"
# In a client's name these would change which topics a rule matches.
UNSAFE: Final = frozenset("+#/")
MAX_LEVELS: Final = 200

ACCESS_WORDS: Final = ("read", "write", "readwrite", "deny")
NEIGHBORHOOD: Final = "neighborhood"
NEIGHBORHOOD_WORDS: Final = ("read", "deny")
# Clients whose rules are cached; beyond this number the cache is cleared.
REMEMBERED_CLIENTS: Final = 10_000


def pattern_levels(pattern: str) -> Levels:
    """Return the levels of a well-formed pattern; FilterError says what is wrong with another."""
    if pattern.startswith("$share/"):
        raise FilterError("a shared subscription is judged by its filter: leave out $share/name/")
    if pattern.startswith(NAME_PREFIX):
        raise FilterError(
            f"judged are the filter behind {NAME_PREFIX}NAME/ and, by 'neighborhood', the name"
        )
    parse_filter(pattern, MAX_LEVELS)
    return tuple(pattern.split("/"))


def covers(pattern: Levels, wanted: Levels) -> bool:
    """Return whether the pattern matches every topic of ``wanted``, a topic or filter in levels.

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
    """Return whether the pattern has a placeholder for a client's name."""
    return any(USER in level or CLIENT in level for level in pattern)


def for_client(pattern: Levels, client: Identity) -> Levels | None:
    """Return the pattern with the client's names; None when they cannot be a topic level.

    With a wildcard or slash in a name the pattern would match topics of other clients.
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
    """Return the pattern for all clients, which a denial uses when names are unusable."""
    return tuple("+" if USER in level or CLIENT in level else level for level in pattern)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line: a pattern, and what it allows or denies.

    ``names``: it is about names of neighborhoods, each of which is one level.
    """

    levels: Levels
    access: str = "readwrite"
    names: bool = False

    def is_about(self, action: Action) -> bool:
        """Return whether the rule is about the action."""
        if self.names or action is Action.USE_NEIGHBORHOOD:
            return self.names and action is Action.USE_NEIGHBORHOOD
        if self.access in ("readwrite", "deny"):
            return True
        return (self.access == "write") == (action is Action.PUBLISH)


@dataclass(slots=True)
class AccessRules:
    """All rules of a file. Without a rule everything is refused."""

    anonymous: list[Rule] = field(default_factory=list)
    users: dict[str, list[Rule]] = field(default_factory=dict)
    patterns: list[Rule] = field(default_factory=list)
    # Whether every client may use every named neighborhood.
    allows_all_names: bool = False
    _of_client: dict[Identity, tuple[Rule, ...]] = field(default_factory=dict, repr=False)

    def verdict(self, client: Identity, topic: str, action: Action) -> Verdict:
        """SUCCESS, or NOT_AUTHORIZED when a rule denies or none allows."""
        wanted = tuple(topic.split("/"))
        allowed = action is Action.USE_NEIGHBORHOOD and self.allows_all_names
        for rule in self._rules_of(client):
            if rule.is_about(action) and covers(rule.levels, wanted):
                if rule.access == "deny":
                    return ReasonCode.NOT_AUTHORIZED
                allowed = True
        return ReasonCode.SUCCESS if allowed else ReasonCode.NOT_AUTHORIZED

    def _rules_of(self, client: Identity) -> tuple[Rule, ...]:
        known = self._of_client.get(client)
        if known is not None:
            return known
        if len(self._of_client) >= REMEMBERED_CLIENTS:
            self._of_client.clear()
        name = client.user_name
        rules = list(self.anonymous if name is None else self.users.get(name, ()))
        for pattern in self.patterns:
            levels: Levels | None = pattern.levels
            if names_client(pattern.levels):
                levels = for_client(pattern.levels, client)
                if levels is None and pattern.access == "deny":
                    levels = for_any_client(pattern.levels)
            if levels is not None:
                rules.append(replace(pattern, levels=levels))
        self._of_client[client] = tuple(rules)
        return self._of_client[client]


def read_rules(path: Path) -> AccessRules:
    """Return the rules of a file; SettingsError when one of its lines is not valid."""
    return parse_rules(read_text(path), str(path))


def parse_rules(text: str, where: str) -> AccessRules:
    """Return the rules of a text; ``where`` names it in errors."""
    rules = AccessRules()
    mistakes = Mistakes()
    section = rules.anonymous
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            if (stripped := line.strip()) and not stripped.startswith("#"):
                section = _add_line(stripped, rules, section)
        except FilterError as error:
            mistakes.append(f"{where}, line {number}: {error}")
    mistakes.check()
    every = [*rules.anonymous, *rules.patterns, *chain(*rules.users.values())]
    rules.allows_all_names = bool(every) and not any(rule.names for rule in every)
    return rules


def _add_line(line: str, rules: AccessRules, section: list[Rule]) -> list[Rule]:
    """Add the rule of a line; return the section that the lines after it belong to."""
    keyword, _, rest = line.partition(" ")
    match keyword:
        case "user":
            return rules.users.setdefault(_name(rest), [])
        case "topic":
            section.append(_rule(rest))
        case "neighborhood":
            section.append(_name_rule(rest, ()))
        case "pattern":
            second, _, name = rest.strip().partition(" ")
            is_about_names = second == NEIGHBORHOOD and bool(name.strip())
            rules.patterns.append(
                _name_rule(name, (USER, CLIENT)) if is_about_names else _rule(rest)
            )
        case _:
            raise FilterError(f"expected user, topic, pattern or neighborhood, not {keyword!r}")
    return section


def _name(rest: str) -> str:
    name = rest.strip()
    if not name:
        raise FilterError("a user name must follow 'user'")
    return name


def _name_rule(rest: str, placeholders: tuple[str, ...]) -> Rule:
    """Return the rule of ``[access] name``; ``#`` stands for every name."""
    *access, name = rest.strip().split(" ")
    if access not in ([], *([word] for word in NEIGHBORHOOD_WORDS)):
        raise FilterError(f"expected read or deny before a name, not {' '.join(access)!r}")
    written = name
    for placeholder in placeholders:
        written = written.replace(placeholder, "u")
    if name != "#" and (name in NEIGHBORHOOD_WORDS or not is_name(written)):
        raise FilterError(f"expected the name of a neighborhood, # or {NAME_FORM}, not {name!r}")
    return Rule((name,), "".join(access) or "read", names=True)


def _rule(rest: str) -> Rule:
    """Return the rule of ``[access] topic``.

    A topic may hold spaces, so of two words the first must say the access, as in Mosquitto.
    Other white space would make two words look like one topic, and the access would be lost.
    """
    odd = next((one for one in rest if one.isspace() and one != " "), None)
    if odd is not None:
        raise FilterError(f"words are separated by spaces, not by {odd!r}")
    word, _, pattern = rest.strip().partition(" ")
    if word in ACCESS_WORDS and pattern.strip():
        return Rule(pattern_levels(pattern.strip()), word)
    if word in ACCESS_WORDS:
        raise FilterError(f"a topic must follow {word!r}")
    if pattern:
        allowed = f"{', '.join(ACCESS_WORDS[:-1])} or {ACCESS_WORDS[-1]}"
        raise FilterError(f"expected {allowed} before the topic, not {word!r}")
    return Rule(pattern_levels(word))
