"""PUBLISH packets about an entity, and the nsids of what arrives."""

from __future__ import annotations

from typing import Any

from tests.broker_core import encode


def about(peid: int | str, topic: str = "s/t", payload: bytes = b"x", **keywords: Any) -> bytes:
    return encode.publish(topic, payload, properties=encode.user("peid", str(peid)), **keywords)


def nsids(packet: Any) -> list[str]:
    return [value for name, value in packet.user_properties if name == "nsid"]
