"""Makes every key in Redis, each by one function. Nothing else in the project builds a key.

| key | kind | holds |
|---|---|---|
| ``spaps:{control}:current`` | string | number of the generation in force; absent: none yet |
| ``spaps:{control}:generations`` | hash | number → facts as JSON (schemas/generation.py) |
| ``spaps:{control}:last_generation`` | counter | highest number ever given |
| ``spaps:{control}:push_lock`` | string, expires | who pushes now, as JSON |
| ``spaps:{control}:changes:N`` | string, expires | what N changed for each subscription, packed |
| ``spaps:{S}:gN:P`` | set of integers | subIds whose neighborhood holds peid P, in generation N |
| ``spaps:{S}:gN:peids`` | set of integers | index: the peids of shard S that have such a set |
| ``spaps:{registry}:id`` | string | identifies this registry: its subIds are valid only here |
| ``spaps:{registry}:last_sub_id`` | counter | highest subId ever given; none is given twice |
| ``spaps:{registry}:subscriptions`` | hash | subId → registration as JSON |
| ``spaps:{registry}:nsids:B:C`` | hash | nsid → subId of client C at broker B |
| ``spaps:{registry}:client:C`` | hash | the same for all brokers together, of earlier releases |
| ``spaps:{registry}:broker:B`` | set of integers | the subIds that broker B has registered |
| ``spaps:{registry}:brokers`` | hash | broker B → token of the process that runs it |
| ``spaps:{registry}:names`` | hash | name → named neighborhood as JSON; ``#edition``: its edition |
| ``spaps:{registry}:users:NAME`` | set of integers | the subIds that use a named neighborhood |
| ``spaps:{broker:B}:lease`` | string, expires | who runs broker B now, as JSON |
| ``spaps:{broker:B}:told`` | string | the generation that B's subscribers know of, as JSON |
| ``spaps:{broker:B}:journal`` | hash | owner, sequence, editions of B's durable state |
| ``spaps:{broker:B}:eN:sessions`` | set | client ids of the sessions in edition N |
| ``spaps:{broker:B}:eN:session:C`` | hash | everything of the session named C |
| ``spaps:{broker:B}:eN:retained`` | hash | topic → retained message |
| ``spaps:{broker:B}:eN:messages`` | hash | number → message that several sessions wait for |
| ``spaps:{broker:B}:damaged:K`` | any, expires | copy of key K, which B could not read |
| ``spaps:generation`` | channel | a notice as JSON after each switch |
| ``spaps:names`` | channel | a notice after each change of a named neighborhood: the edition |

The part in braces is the hash tag: in a cluster, keys with one tag lie in one hash slot.

* ``{control}`` and ``{registry}``: keys that one script changes lie together.
* ``{S}`` is the shard of a peid, 0 .. 1020, the same in every generation. So a generation is
  spread over all nodes of a cluster, while a shard (index and sets) is on one: it is written, read,
  verified and removed as a whole, with commands of many keys.
* ``C``: a client id; for a client with a user name: that name, U+0000 and the client id.
* ``{broker:B}``: one message can change many sessions of a broker atomically.

With the index, a generation is read without SCAN. It is written before the sets that it names,
so all keys of a killed writer can be found and removed.
"""

from __future__ import annotations

from typing import Final

# A prime number, so that peids with a regular pattern still spread over all shards. With this many
# shards the nodes of a cluster have about equal parts.
SHARD_COUNT: Final = 1021

GENERATION_CHANNEL: Final = "spaps:generation"
NAMES_CHANNEL: Final = "spaps:names"

_CONTROL: Final = "spaps:{control}"
_REGISTRY: Final = "spaps:{registry}"


def current_generation_key() -> str:
    """Return the key of the number of the generation in force."""
    return f"{_CONTROL}:current"


def generations_key() -> str:
    """Return the key of the facts of all known generations, by number."""
    return f"{_CONTROL}:generations"


def last_generation_key() -> str:
    """Return the key of the counter that numbers generations."""
    return f"{_CONTROL}:last_generation"


def push_lock_key() -> str:
    """Return the key of the lock of pushes."""
    return f"{_CONTROL}:push_lock"


def generation_changes_key(generation: int) -> str:
    """Return the key of the counts of members that each subscription gained and lost."""
    return f"{_CONTROL}:changes:{generation}"


def shard_of(peid: int) -> int:
    """Return the shard of an entity, the same in every generation."""
    return peid % SHARD_COUNT


def membership_prefix(generation: int, shard: int) -> str:
    """Return the prefix of the keys of a shard's sets; the decimal peid follows."""
    return f"spaps:{{{shard}}}:g{generation}:"


def membership_key(generation: int, peid: int) -> str:
    """Return the key of the set of subIds whose neighborhood holds the entity."""
    return f"{membership_prefix(generation, shard_of(peid))}{peid}"


def shard_index_key(generation: int, shard: int) -> str:
    """Return the key of the peids of a shard that have a set in the generation."""
    return f"{membership_prefix(generation, shard)}peids"


def registry_id_key() -> str:
    """Return the key of the random id of the registry."""
    return f"{_REGISTRY}:id"


def last_sub_id_key() -> str:
    """Return the key of the counter that numbers subscriptions in the whole system."""
    return f"{_REGISTRY}:last_sub_id"


def subscriptions_key() -> str:
    """Return the key of the registered subscriptions by subId."""
    return f"{_REGISTRY}:subscriptions"


def client_subscriptions_key(broker: str, client_id: str) -> str:
    """Return the key of a client's subIds by nsid; the name of a broker has no colon."""
    return f"{_REGISTRY}:nsids:{broker}:{client_id}"


def shared_client_key(client_id: str) -> str:
    """Return the key of a client's subIds by nsid at all brokers, of earlier releases."""
    return f"{_REGISTRY}:client:{client_id}"


def brokers_key() -> str:
    """Return the key of the process that runs each broker and may change its registrations."""
    return f"{_REGISTRY}:brokers"


def broker_subscriptions_key(broker: str) -> str:
    """Return the key of the subIds that one broker has registered."""
    return f"{_REGISTRY}:broker:{broker}"


def names_key() -> str:
    """Return the key of the named neighborhoods."""
    return f"{_REGISTRY}:names"


def name_users_key(name: str) -> str:
    """Return the key of the subIds that use a named neighborhood."""
    return f"{_REGISTRY}:users:{name}"


def broker_lease_key(broker: str) -> str:
    """Return the key of the lease of the process that runs the broker."""
    return f"{_broker(broker)}:lease"


def broker_told_key(broker: str) -> str:
    """Return the key of the generation that the broker's subscribers know of."""
    return f"{_broker(broker)}:told"


def journal_key(broker: str) -> str:
    """Return the key of owner, sequence and editions of the broker's durable state."""
    return f"{_broker(broker)}:journal"


def journal_sessions_key(broker: str, edition: int) -> str:
    """Return the key of the client ids of the sessions in an edition."""
    return f"{_broker(broker)}:e{edition}:sessions"


def journal_session_key(broker: str, edition: int, client_id: str) -> str:
    """Return the key of everything about one session."""
    return f"{_broker(broker)}:e{edition}:session:{client_id}"


def journal_retained_key(broker: str, edition: int) -> str:
    """Return the key of the retained messages by topic."""
    return f"{_broker(broker)}:e{edition}:retained"


def journal_messages_key(broker: str, edition: int) -> str:
    """Return the key of the messages that several sessions wait for."""
    return f"{_broker(broker)}:e{edition}:messages"


def journal_damaged_key(broker: str, key: str) -> str:
    """Return the key of the copy of a key that could not be read."""
    return f"{_broker(broker)}:damaged:{key.removeprefix(f'{_broker(broker)}:')}"


def _broker(name: str) -> str:
    return f"spaps:{{broker:{name}}}"
