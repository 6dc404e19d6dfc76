"""Limits on SUBSCRIBE and UNSUBSCRIBE packets as a whole, before their filters are looked at."""

from __future__ import annotations

from broker.codec.filter_count import count_filters
from broker.codec.packet_writer import SUBACK, UNSUBACK, refused_filters
from broker.codec.reason_codes import ReasonCode
from broker.core.core_state import CoreState
from broker.core.counters import WORK_OF_A_FILTER, WORK_OF_A_SUBSCRIBE, Refusal
from broker.core.limits import BrokerLimits
from broker.core.sessions.connection import Connection


def is_queue_full(connection: Connection, limits: BrokerLimits) -> bool:
    """Return whether too many packets of the client wait already, or too many bytes of them."""
    subscribe_queue = connection.subscribe_queue
    return len(subscribe_queue) >= limits.waiting_subscribes or (
        len(subscribe_queue) > 1
        and sum([job.bytes for job in subscribe_queue]) > limits.packet_bytes
    )


def refuse_too_many_filters(
    state: CoreState, connection: Connection, data: bytes, body: int, end: int, answer: int
) -> bool:
    """Answer a packet that has more filters than allowed; return whether it has.

    ``answer`` is the kind of packet that answers it. UNSUBACK has no code for a quota: every
    filter gets "implementation specific error".
    """
    most = state.limits.filters_per_packet
    packet_id, count = count_filters(data, body, end, option_bytes=answer == SUBACK)
    state.counters.work += WORK_OF_A_SUBSCRIBE + min(count, most) * WORK_OF_A_FILTER
    if count <= most:
        return False
    # Only their lengths were looked at.
    state.counters.work += count
    state.counters.refusals[Refusal.FILTERS_PER_PACKET] += count
    code = ReasonCode.QUOTA_EXCEEDED
    if answer == UNSUBACK:
        code = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    text = f"{count} topic filters in one packet; at most {most} are accepted"
    packet = plain = refused_filters(answer, packet_id, code, count, None)
    if connection.wants_reasons:
        packet = refused_filters(answer, packet_id, code, count, text)
    limit = connection.maximum_packet_size
    if limit is not None and len(packet) > limit:
        packet = plain
    state.output_gate.promise(connection, packet, state.journal.position)
    return True
