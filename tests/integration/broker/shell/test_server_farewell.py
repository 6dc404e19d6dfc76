"""A client that is sent away while it still sends reads the reason, and is let go in the end."""

from __future__ import annotations

import socket
import struct

from tests.servers.raw_client import PUBLISH, connect_packet
from tests.servers.running_broker import PATIENCE, RunningBroker, until

RECEIVE_MAXIMUM = 1000
RECEIVE_MAXIMUM_EXCEEDED = 0x93
DISCONNECT = 0xE0


def publish_of_qos_2(packet_id: int) -> bytes:
    body = struct.pack("!H1sHB", 1, b"t", packet_id, 0)
    return bytes([PUBLISH | 0x04, len(body)]) + body


def pubrel(packet_id: int) -> bytes:
    return struct.pack("!BBH", 0x62, 2, packet_id)


def test_the_reason_is_read_although_the_client_goes_on_sending(
    open_broker: RunningBroker,
) -> None:
    with socket.create_connection(("127.0.0.1", open_broker.port), PATIENCE) as client:
        client.sendall(connect_packet("floods"))
        everything = b"".join(publish_of_qos_2(n) for n in range(1, RECEIVE_MAXIMUM + 2))
        client.sendall(everything)
        client.settimeout(PATIENCE)
        received = b""
        packet_id = 0
        # One PUBREL for each piece that is read: a socket that were closed would break here.
        while piece := client.recv(16):
            received += piece
            packet_id += 1
            client.sendall(pubrel(packet_id))
    at = received.rindex(bytes([DISCONNECT]))
    assert received[at + 2] == RECEIVE_MAXIMUM_EXCEEDED


def test_a_client_that_never_closes_is_cut_off(open_broker: RunningBroker) -> None:
    with socket.create_connection(("127.0.0.1", open_broker.port), PATIENCE) as client:
        client.settimeout(PATIENCE)
        client.sendall(b"\xf0\x00")
        while client.recv(100):
            pass  # our last words, then our end of the connection

        def is_cut_off() -> bool:
            try:
                client.sendall(bytes(100))
            except (ConnectionResetError, BrokenPipeError):
                return True
            return False

        until(is_cut_off, "the end of a client that goes on sending")
