"""Every limit of the broker with its default: nothing a client sends may grow without one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """Sizes are bytes, times are seconds."""

    # Before CONNECT is accepted nobody is known: a stranger may cost little.
    packet_bytes_before_connect: int = 65_536
    packet_bytes: int = 1_048_576
    connect_timeout: float = 10.0
    # Longer keep alives are answered by Server Keep Alive; 0 ("never") counts as longer.
    keep_alive: int = 60
    client_id_bytes: int = 256

    # QoS 1 and 2 messages of one client that we have not acknowledged yet.
    receive_maximum: int = 1_000
    # The same towards a client; its own Receive Maximum applies too.
    in_flight: int = 1_000
    queued_messages: int = 10_000
    # Queued and in flight together, for one session.
    queued_bytes: int = 16_777_216

    sessions: int = 100_000
    session_expiry: int = 30 * 24 * 3600
    subscriptions: int = 10_000
    neighborhoods: int = 1_000
    # SUBSCRIBE and UNSUBSCRIBE packets of one client that wait for an earlier one's resolution.
    waiting_subscribes: int = 100

    topic_levels: int = 200
    topic_aliases_in: int = 100
    topic_aliases_out: int = 100
    retained_messages: int = 100_000
    retained_bytes: int = 134_217_728
    # Topics whose matching filters are remembered; beyond it the memory starts afresh.
    cached_routes: int = 65_536
