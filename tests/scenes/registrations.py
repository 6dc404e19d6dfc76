"""Registrations without a broker, by the scripts that brokers run."""

from __future__ import annotations

import uuid
from typing import Any

from redis_link.connection.client import RedisClient
from redis_link.registry.registry_reader import registered_subscriptions
from redis_link.registry.registry_scripts import BrokerCalls, ScriptCall
from schemas.redis_keys import registry_id_key
from schemas.subscription import Registration

BROKER = "broker of the tests"


def register(client: RedisClient, registration: Registration) -> int:
    """Register as a broker does, in a registry that is opened before; return the subId."""
    calls = _calls(registration.broker)
    while True:
        name = _run(client, calls.open(takes_over=True, has_any=False)).decode()
        if not name:
            name = uuid.uuid4().hex
            client.set(registry_id_key(), name)
        # Empty when another thread has named the registry at the same moment.
        if number := _run(client, calls.register(registration, name)):
            return int(number)


def forget(client: RedisClient, *sub_ids: int) -> None:
    """Remove registrations as their broker does."""
    registered = dict(registered_subscriptions(client))
    for sub_id in sub_ids:
        if (found := registered.get(sub_id)) is not None:
            _run(client, _calls(found.broker).forget(found, sub_id, []))


def unregister(client: RedisClient, client_id: str, nsids: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Remove the registrations of a client, all when no nsid is given; return their subIds."""
    found = tuple(
        sub_id
        for sub_id, each in registered_subscriptions(client)
        if each.client_id == client_id and (not nsids or each.nsid in nsids)
    )
    forget(client, *found)
    return found


def _calls(broker: str) -> BrokerCalls:
    return BrokerCalls(broker, "process of the tests")


def _run(client: RedisClient, call: ScriptCall) -> Any:
    return client.eval(call.script.text, len(call.keys), *call.keys, *map(str, call.words))
