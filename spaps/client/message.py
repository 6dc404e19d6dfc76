"""Messages and notices as a client gets them, and what a client and the broker have in common.

The client is installed without the rest of spaPS, so names and limits are repeated here. A test
holds them equal to those of the broker (``schemas``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from paho.mqtt.client import MQTTMessage
from paho.mqtt.properties import MQTTException, Properties

from spaps.client.errors import ClientUseError, NoticeError

# User properties of SUBSCRIBE, SUBACK, UNSUBSCRIBE and PUBLISH.
NEIGHBORHOOD: Final = "neighborhood"
NSID: Final = "nsid"
PEID: Final = "peid"
WARNING: Final = "warning"

# The largest peid and the largest nsid.
MAX_PEID: Final = 2**63 - 1
# A neighborhood travels as one MQTT string, whose length field has two bytes.
MAX_DESCRIPTOR_BYTES: Final = 65_535

# Here the broker tells each subscriber what changed in its own neighborhoods.
CHANGES_TOPIC: Final = "$SYS/broker/neighborhoods/changed"
# The value of "references" when no reference of a neighborhood exists any more.
NONE_LEFT: Final = "none left"

# Reason codes of a SUBACK to a neighborhood that cannot be granted: none of its references exists,
# or the broker serves no neighborhoods; it breaks a rule of the language.
NEIGHBORHOOD_REFUSED: Final = 0x83
NEIGHBORHOOD_MALFORMED: Final = 0x8F


@dataclass(frozen=True, slots=True)
class Message:
    """A message that the broker delivered.

    ``nsids``: the neighborhoods of this client that hold the entity; empty when only a plain
    subscription matched. ``peid``: the entity that the message is about, None when it names none.
    ``user_properties`` are the sender's, in order. ``properties`` are paho's properties object.
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
    """Return paho's message with its peid and nsids read out."""
    pairs = user_pairs(message.properties)
    peids = numbers_of(pairs, PEID)
    return Message(
        topic=message.topic,
        payload=bytes(message.payload),
        qos=message.qos,
        retain=message.retain,
        nsids=numbers_of(pairs, NSID),
        peid=peids[0] if peids else None,
        user_properties=tuple(pair for pair in pairs if pair[0] != NSID),
        properties=message.properties,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighborhoodChange:
    """What a new world version changed in one neighborhood of this client.

    ``gained`` and ``lost`` are numbers of entities. They are None when the broker did not count
    them, as when it was down during several changes of the world.
    """

    nsid: int
    gained: int | None
    lost: int | None
    has_references: bool
    version: int
    generation: int | None
    # The name that stands for something else now; None when the world was changed.
    name: str | None = None

    def __str__(self) -> str:
        counts = "changed" if self.gained is None else f"+{self.gained} -{self.lost}"
        rest = "" if self.has_references else ", no reference is left"
        named = "" if self.name is None else f" (@{self.name})"
        return f"neighborhood {self.nsid}{named}: {counts} (world version {self.version}{rest})"


def changes_from_json(payload: bytes) -> list[NeighborhoodChange]:
    """Return the changes that a payload lists; raise NoticeError when it is something else."""
    try:
        content: dict[str, Any] = json.loads(payload)
        version, generation = int(content["version"]), _number(content["generation"])
        return [
            NeighborhoodChange(
                nsid=int(one["nsid"]),
                gained=_number(one["gained"]),
                lost=_number(one["lost"]),
                has_references=one["references"] != NONE_LEFT,
                version=version,
                generation=generation,
                name=one.get("name"),
            )
            for one in content["changes"]
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise NoticeError(
            f"a notice of changed neighborhoods is not understood: {error}"
        ) from error


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def user_pairs(properties: Properties | None) -> list[tuple[str, str]]:
    """Return the user properties of a packet, in order."""
    pairs: list[tuple[str, str]] = getattr(properties, "UserProperty", [])
    return pairs


def numbers_of(pairs: Iterable[tuple[str, str]], name: str) -> tuple[int, ...]:
    """Return all numbers under this name. A value that is no number is not from a spaPS broker."""
    return tuple(
        int(value)
        for key, value in pairs
        if key == name and value.isascii() and value.isdigit() and len(value) <= len(str(MAX_PEID))
    )


def packet_properties(
    packet_type: int, pairs: Iterable[tuple[str, str]], **others: Any
) -> Properties:
    """Return the properties of a packet that goes to the broker."""
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
    """Return the user property that says which entity a message is about."""
    if isinstance(peid, bool) or not isinstance(peid, int) or not 0 <= peid <= MAX_PEID:
        raise ClientUseError(f"a peid is an integer from 0 to 2^63-1, not {str(peid)[:40]!r}")
    return PEID, str(peid)


def check_topic(topic: str, *, has_alias: bool = False) -> None:
    """Refuse a topic for which the broker would close the connection without a reason at QoS 0."""
    if not topic and not has_alias:
        raise ClientUseError("the topic of a message is empty")
    if "+" in topic or "#" in topic:
        raise ClientUseError(f"the topic of a message has no wildcards (+ and #): {topic!r}")
