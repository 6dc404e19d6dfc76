"""Every limit of the broker with its default: nothing a client sends may grow without one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """Sizes are bytes, times are seconds."""

    # Before CONNECT is accepted nobody is known: a stranger may cost little.
    packet_bytes_before_connect: int = 65_536
    packet_bytes: int = 1_048_576
    # User properties in one packet; before CONNECT is accepted, those of CONNECT and its will.
    user_properties_before_connect: int = 64
    user_properties: int = 1_100
    connect_timeout: float = 10.0
    # Longer keep alives are answered by Server Keep Alive; 0 ("never") counts as longer.
    keep_alive: int = 60
    client_id_bytes: int = 256

    # QoS 1 and 2 messages of one client that we have not acknowledged yet.
    receive_maximum: int = 1_000
    # The same towards a client; its own Receive Maximum applies too.
    in_flight: int = 1_000
    queued_messages: int = 10_000
    # Queued and in flight together, for one session, as they are in memory; and of all sessions
    # with their wills, of which one user name or address gets at most half.
    queued_bytes: int = 16_777_216
    total_queued_bytes: int = 536_870_912

    sessions: int = 100_000
    # Of one user name, and of one address for clients without a user name.
    sessions_of_user: int = 10_000
    sessions_of_address: int = 1_000
    session_expiry: int = 30 * 24 * 3600
    subscriptions: int = 10_000
    # What the subscriptions of one client take in memory, and those of all; one owner gets at
    # most half of it.
    subscription_bytes: int = 16_777_216
    total_subscription_bytes: int = 268_435_456
    neighborhoods: int = 1_000
    # Pairs of entity and subscription in the filter, about 15 bytes each: those of one client, and
    # those of all, of which one user name or address gets at most half.
    pairs: int = 2_000_000
    total_pairs: int = 64_000_000
    # Topic filters in one SUBSCRIBE or UNSUBSCRIBE.
    filters_per_packet: int = 1_000
    # SUBSCRIBE and UNSUBSCRIBE packets of one client that wait for an earlier one's resolution.
    waiting_subscribes: int = 100

    topic_levels: int = 200
    topic_aliases_in: int = 100
    topic_aliases_out: int = 100
    # Topics that have an alias towards one client.
    topic_alias_bytes: int = 16_384
    # Unfinished packets, input of connections that wait for an answer, SUBSCRIBEs that wait or
    # whose retained messages are not read, and topics of clients' aliases, of all connections
    # together.
    input_bytes: int = 268_435_456
    # Remembered answers of access control, of all clients together.
    verdict_bytes: int = 67_108_864
    # Of all clients; one user name gets at most half.
    retained_messages: int = 200_000
    retained_bytes: int = 268_435_456
    # Topics whose matching filters are remembered, and their bytes in memory; beyond either the
    # memory starts afresh.
    cached_routes: int = 65_536
    cached_route_bytes: int = 67_108_864
