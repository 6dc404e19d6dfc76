"""A message as a subscriber sees it, and the user properties that make messages spatial."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from paho.mqtt.client import MQTTMessage
from paho.mqtt.properties import MQTTException, Properties

from spaps.client.errors import ClientUseError
from spaps.client.protocol import MAX_PEID, NSID, PEID


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    ``nsids``: the neighborhoods of this client that hold the entity; empty when the message came
    by a plain subscription alone. ``peid``: the entity that it is about, None when it names none.
    ``user_properties`` are the sender's, in order. ``properties`` are all of them as paho has them.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    nsids: tuple[int, ...]
    peid: int | None
    user_properties: tuple[tuple[str, str], ...]
    properties: Properties | None


def read_message(message: MQTTMessage) -> Message:
    """The message that paho gives, with what is spatial about it read out."""
    return message_of(
        message.topic,
        message.payload,
        message.qos,
        retain=message.retain,
        properties=message.properties,
    )


def message_of(
    topic: str, payload: Any, qos: int, *, retain: bool, properties: Properties | None
) -> Message:
    """A message of its parts."""
    pairs = user_pairs(properties)
    peids = numbers_of(pairs, PEID)
    return Message(
        topic=topic,
        payload=bytes(payload),
        qos=qos,
        retain=retain,
        nsids=numbers_of(pairs, NSID),
        peid=peids[0] if peids else None,
        user_properties=tuple(pair for pair in pairs if pair[0] != NSID),
        properties=properties,
    )


def user_pairs(properties: Properties | None) -> list[tuple[str, str]]:
    """The user properties of a packet, in order."""
    pairs: list[tuple[str, str]] = getattr(properties, "UserProperty", [])
    return pairs


def numbers_of(pairs: Iterable[tuple[str, str]], name: str) -> tuple[int, ...]:
    """All numbers under this name; what is no number was not put there by a broker of ours."""
    return tuple(
        int(value)
        for key, value in pairs
        if key == name and value.isascii() and value.isdigit() and len(value) <= len(str(MAX_PEID))
    )


def packet_properties(
    packet_type: int, pairs: Iterable[tuple[str, str]], **others: Any
) -> Properties:
    """Properties for a packet that goes to the broker."""
    properties = Properties(packet_type)  # type: ignore[no-untyped-call]  # paho's
    listed = list(pairs)
    try:
        if listed:
            properties.UserProperty = listed
        for name, value in others.items():
            setattr(properties, name, value)
    except (MQTTException, ValueError, TypeError) as error:
        raise ClientUseError(f"properties: {error}") from error
    return properties


def peid_pair(peid: int) -> tuple[str, str]:
    """The user property that says which entity a message is about."""
    if isinstance(peid, bool) or not isinstance(peid, int) or not 0 <= peid <= MAX_PEID:
        raise ClientUseError(f"a peid is an integer from 0 to 2^63-1, not {str(peid)[:40]!r}")
    return PEID, str(peid)


def check_topic(topic: str, *, has_alias: bool = False) -> None:
    """Refuse an empty topic: a broker ends the connection for it, and QoS 0 would never know."""
    if not topic and not has_alias:
        raise ClientUseError("the topic of a message is empty")
