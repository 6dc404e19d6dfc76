"""Every name in Redis, each made by one function. Nothing else in the project spells a key.

| key | kind | holds |
|---|---|---|
| ``spaps:{control}:current`` | string | number of the generation in force; absent: none yet |
| ``spaps:{control}:generations`` | hash | number → facts as JSON (schemas/generation.py) |
| ``spaps:{control}:last_generation`` | counter | highest number ever given |
| ``spaps:{control}:push_lock`` | string, expires | who pushes now, as JSON |
| ``spaps:{control}:changes:N`` | string, expires | what N changed for each subscription, packed |
| ``spaps:{S}:gN:P`` | set of integers | subIds whose neighborhood holds peid P, in generation N |
| ``spaps:{S}:gN:peids`` | set of integers | index: the peids of shard S that have such a set |
| ``spaps:{registry}:id`` | string | names this registry: its subIds mean nothing in another |
| ``spaps:{registry}:last_sub_id`` | counter | highest subId ever given; none is given twice |
| ``spaps:{registry}:subscriptions`` | hash | subId → registration as JSON |
| ``spaps:{registry}:nsids:B:C`` | hash | nsid → subId of client C at broker B |
| ``spaps:{registry}:client:C`` | hash | the same for all brokers together, of earlier releases |
| ``spaps:{registry}:broker:B`` | set of integers | the subIds that broker B has registered |
| ``spaps:{registry}:brokers`` | hash | broker B → token of the process that runs it |
| ``spaps:{broker:B}:lease`` | string, expires | who runs broker B now, as JSON |
| ``spaps:{broker:B}:told`` | string | the generation that B's subscribers know of, as JSON |
| ``spaps:{broker:B}:journal`` | hash | owner, sequence, editions of B's durable state |
| ``spaps:{broker:B}:eN:sessions`` | set | client ids of the sessions in edition N |
| ``spaps:{broker:B}:eN:session:C`` | hash | everything of the session named C |
| ``spaps:{broker:B}:eN:retained`` | hash | topic → retained message |
| ``spaps:{broker:B}:eN:messages`` | hash | number → message that several sessions wait for |
| ``spaps:{broker:B}:damaged:K`` | any, expires | copy of key K, which B could not read |
| ``spaps:generation`` | channel | a notice as JSON after each switch |

The part in braces is the hash tag: in a cluster, keys with one tag lie in one slot.

* ``{control}`` and ``{registry}``: what changes together in one script lies together.
* ``{S}`` is the shard of a peid, 0 .. 1020, the same in every generation. A generation so
  spreads over all nodes, while a shard (index and sets) stays on one: it is written, read,
  verified and removed as a whole, with commands of many keys.
* ``C``: a client id; of a client with a user name that name, U+0000 and the client id.
* ``{broker:B}``: one message can change many sessions of a broker, in one step.

The index makes a generation readable without SCAN. It is written before the sets it names,
so whatever a killed writer leaves behind can be found and removed.
"""

from __future__ import annotations

from typing import Final

# Prime, so that no pattern in the digits or bits of peids crowds them into few shards; enough
# shards that chance leaves the nodes of a cluster within some percent of each other.
SHARD_COUNT: Final = 1021

GENERATION_CHANNEL: Final = "spaps:generation"

_CONTROL: Final = "spaps:{control}"
_REGISTRY: Final = "spaps:{registry}"


def current_generation_key() -> str:
    """The pointer: number of the generation that brokers filter by."""
    return f"{_CONTROL}:current"


def generations_key() -> str:
    """Facts of all generations that exist or left traces, by number."""
    return f"{_CONTROL}:generations"


def last_generation_key() -> str:
    """Counter that numbers generations."""
    return f"{_CONTROL}:last_generation"


def push_lock_key() -> str:
    """Held by the one push that may build and switch."""
    return f"{_CONTROL}:push_lock"


def generation_changes_key(generation: int) -> str:
    """Members gained and lost by subscription, against the generation before."""
    return f"{_CONTROL}:changes:{generation}"


def shard_of(peid: int) -> int:
    """The shard that holds everything about an entity, in every generation."""
    return peid % SHARD_COUNT


def membership_prefix(generation: int, shard: int) -> str:
    """What the keys of all sets of one shard begin with; the decimal peid follows."""
    return f"spaps:{{{shard}}}:g{generation}:"


def membership_key(generation: int, peid: int) -> str:
    """The set of subIds whose neighborhood holds the entity."""
    return f"{membership_prefix(generation, shard_of(peid))}{peid}"


def shard_index_key(generation: int, shard: int) -> str:
    """The peids of a shard that have a set in the generation."""
    return f"{membership_prefix(generation, shard)}peids"


def registry_id_key() -> str:
    """Random name of the registry, made with its first subscription."""
    return f"{_REGISTRY}:id"


def last_sub_id_key() -> str:
    """Counter that numbers subscriptions in the whole system."""
    return f"{_REGISTRY}:last_sub_id"


def subscriptions_key() -> str:
    """Registered subscriptions by subId."""
    return f"{_REGISTRY}:subscriptions"


def client_subscriptions_key(broker: str, client_id: str) -> str:
    """The subIds of one client of a broker by nsid; the name of a broker has no colon."""
    return f"{_REGISTRY}:nsids:{broker}:{client_id}"


def shared_client_key(client_id: str) -> str:
    """The subIds of one client by nsid, as earlier releases kept them for all brokers."""
    return f"{_REGISTRY}:client:{client_id}"


def brokers_key() -> str:
    """The process that runs each broker: nobody else may change its registrations."""
    return f"{_REGISTRY}:brokers"


def broker_subscriptions_key(broker: str) -> str:
    """The subIds that one broker has registered: what it does not hold of these is over."""
    return f"{_REGISTRY}:broker:{broker}"


def broker_lease_key(broker: str) -> str:
    """Held by the one process that runs the broker of this name."""
    return f"{_broker(broker)}:lease"


def broker_told_key(broker: str) -> str:
    """The generation whose changes the broker's subscribers know of."""
    return f"{_broker(broker)}:told"


def journal_key(broker: str) -> str:
    """Who writes the broker's durable state, how far it is, and which edition counts."""
    return f"{_broker(broker)}:journal"


def journal_sessions_key(broker: str, edition: int) -> str:
    """Index: the sessions that an edition of the durable state holds."""
    return f"{_broker(broker)}:e{edition}:sessions"


def journal_session_key(broker: str, edition: int, client_id: str) -> str:
    """One session: itself, its subscriptions, what it is owed and what it has sent."""
    return f"{_broker(broker)}:e{edition}:session:{client_id}"


def journal_retained_key(broker: str, edition: int) -> str:
    """Retained messages by topic."""
    return f"{_broker(broker)}:e{edition}:retained"


def journal_messages_key(broker: str, edition: int) -> str:
    """Messages that are kept once for several sessions."""
    return f"{_broker(broker)}:e{edition}:messages"


def journal_damaged_key(broker: str, key: str) -> str:
    """The copy of a key that could not be read."""
    return f"{_broker(broker)}:damaged:{key.removeprefix(f'{_broker(broker)}:')}"


def _broker(name: str) -> str:
    return f"spaps:{{broker:{name}}}"
