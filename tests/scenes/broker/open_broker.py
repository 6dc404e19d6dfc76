"""A broker that everyone may use, and its memory."""

from __future__ import annotations

from tests.servers.raw_client import PUBLISH, RawClient, publish_packet, subscribe_packet
from tests.servers.running_broker import RunningBroker

OPEN = ("--memberships", "none", "--allow-anonymous", "--http", "0")
MEGABYTE = 1_048_576


def connected(broker: RunningBroker, client_id: str = "raw", **options: object) -> RawClient:
    client = RawClient(broker.port)
    assert client.connect(client_id=client_id, **options)[1] == 0
    return client


def is_alive(broker: RunningBroker) -> bool:
    """Whether a new client is served from CONNECT to delivery."""
    with connected(broker, "probe") as client:
        client.send(subscribe_packet("probe") + publish_packet("probe", b"echo"))
        while client.read_packet()[0] & 0xF0 != PUBLISH:
            pass
    return True


def memory(broker: RunningBroker) -> float:
    return broker.metric("process_resident_memory_bytes")
