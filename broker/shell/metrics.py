"""Metrics of the broker for Prometheus, and the pages that operators read.

Values are read when the page is requested, so that counting costs the broker nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from broker.core.counters import Drop, Refusal
from broker.shell.http_server import Page, Pages

if TYPE_CHECKING:
    from broker.shell.service import BrokerService

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# From a dictionary look-up to a route that had to be searched.
FILTER_BUCKETS: Final = (
    5e-7, 1e-6, 2e-6, 3e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2,
)  # fmt: skip

# One value, or one for each value of the label.
FigureValue: TypeAlias = float | Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric. A counter only grows; a gauge goes up and down."""

    name: str
    text: str
    read: Callable[[], FigureValue]
    is_counter: bool = False
    label: str | None = None


class Metrics(Collector):
    """All metrics of one broker, in its own registry of Prometheus."""

    def __init__(self) -> None:
        self._figures: list[Figure] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self._filter_seconds = Histogram(
            "spaps_filter_seconds",
            "From an entity to its subscriptions, a sample of messages",
            buckets=FILTER_BUCKETS,
            registry=self._registry,
        )

    def add(self, *figures: Figure) -> None:
        """Add metrics to the page."""
        self._figures += figures

    def observe_filter_times(self, seconds: list[float]) -> None:
        """Add samples of the filter time to the histogram."""
        for value in seconds:
            self._filter_seconds.observe(value)

    def page(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the current values; called by the registry of Prometheus."""
        for figure in self._figures:
            kind = CounterMetricFamily if figure.is_counter else GaugeMetricFamily
            labels = [figure.label] if figure.label is not None else []
            family = kind(figure.name, figure.text, labels=labels)
            reading = figure.read()
            if isinstance(reading, Mapping):
                for value, number in sorted(reading.items()):
                    family.add_metric([value], number)
            else:
                family.add_metric([], reading)
            yield family


SAMPLE_SECONDS: Final = 1.0
# Counters of the core that are exported under their own name.
CORE_COUNTERS: Final = {
    "bytes_received": "Bytes from clients",
    "bytes_sent": "Bytes to clients",
    "packets_received": "Packets from clients, without QoS 0 PUBLISH",
    "publishes_received": "PUBLISH packets from clients",
    "publishes_sent": "PUBLISH packets to clients",
    "publish_bytes_received": "Bytes of PUBLISH packets from clients",
    "publish_bytes_sent": "Bytes of PUBLISH packets to clients",
    "spatial_publishes": "PUBLISH packets from clients that are about an entity",
    "matches": "Neighborhood subscriptions that PUBLISH packets matched",
    "protocol_errors": "Connections ended for what their client sent",
    "refused_connects": "Clients that were refused",
    "sessions_expired": "Sessions that expired",
    "turns_given_up": "Reads that were continued later to let other clients proceed",
}


def add_figures(metrics: Metrics, service: BrokerService) -> None:
    """Add all metrics of this broker."""
    core, core_driver, admission = service.core, service.core_driver, service.admission
    for name, text in CORE_COUNTERS.items():
        metrics.add(Figure(f"spaps_{name}", text, _reader(core.counters, name), is_counter=True))
    metrics.add(
        Figure("spaps_connections_opened", "Connections opened",
               lambda: core.counters.connections, is_counter=True),
        Figure("spaps_connections_refused", "Connections closed at once, by cause",
               lambda: {**core_driver.quota.refused, "origin": admission.origins.refused},
               is_counter=True, label="cause"),
        Figure("spaps_drops", "Messages that did not reach a client, by cause",
               lambda: {cause.value: core.counters.drops[cause] for cause in Drop},
               is_counter=True, label="cause"),
        Figure("spaps_refusals", "What clients asked for and was refused, by the limit reached",
               lambda: {limit.value: core.counters.refusals[limit] for limit in Refusal},
               is_counter=True, label="limit"),
        Figure("spaps_logins", "Decisions about CONNECT, by reason code",
               lambda: {code.name.lower(): n for code, n in admission.logins.decided.items()},
               is_counter=True, label="reason"),
        Figure("spaps_certificate_expires", "When a certificate expires, in seconds since 1970",
               lambda: admission.certificates.expiries, label="file"),
        Figure("spaps_http_displaced", "Slow visitors that were disconnected, by limit reached",
               lambda: service.operator_interfaces.http.visitors.displaced,
               is_counter=True, label="cause"),
        Figure("spaps_logins_unchecked", "Passwords that were not checked, by cause",
               lambda: admission.logins.unchecked, is_counter=True, label="cause"),
        Figure("spaps_connections", "Connections now", lambda: len(core_driver.connections)),
        Figure("spaps_tasks", "Tasks on the event loop",
               lambda: len(asyncio.all_tasks())),
        Figure("spaps_sessions_refused", "New sessions that were refused, by the limit reached",
               lambda: core.sessions.refused, is_counter=True, label="cause"),
        Figure("spaps_sessions", "Sessions now, connected or not", lambda: len(core.sessions)),
        Figure("spaps_sessions_connected", "Sessions with a connected client",
               lambda: core.sessions.connected),
        Figure("spaps_subscriptions", "Subscriptions in force", lambda: core.index.count),
        Figure("spaps_shared_subscriptions", "Shared subscriptions",
               lambda: core.index.shared_count),
        Figure("spaps_neighborhoods", "Subscriptions with a neighborhood",
               lambda: len(core.neighborhoods.slots_by_sub_id)),
        Figure("spaps_subscription_bytes", "Bytes that subscriptions take in memory",
               lambda: core.shares.subscriptions.used),
        Figure("spaps_cached_routes", "Topics whose matching filters are remembered",
               lambda: len(core.routes.by_topic)),
        Figure("spaps_cached_route_bytes", "Bytes that remembered routes take in memory",
               lambda: core.routes.bytes),
        Figure("spaps_input_bytes", "Bytes of input that connections hold",
               lambda: core.input_budget.bytes),
        Figure("spaps_output_bytes", "Bytes that were written and clients have not read",
               lambda: sum(one.peer.unread_bytes for one in core_driver.connections)),
        Figure("spaps_reading_stopped", "Times that a client was not read from any more,"
               " because it did not read its answers",
               lambda: core_driver.unread.stops, is_counter=True),
        Figure("spaps_connections_not_read", "Connections that are not read from now",
               lambda: len(core_driver.unread)),
        Figure("spaps_retained_messages", "Retained messages", lambda: core.retained.count),
        Figure("spaps_retained_bytes", "Bytes that retained messages take in memory",
               lambda: core.retained.bytes),
        Figure("spaps_queued_messages", "QoS 1 and 2 messages that wait for a client",
               lambda: sum(len(one.outgoing.queue) for one in core.sessions)),
        Figure("spaps_in_flight_messages", "QoS 1 and 2 messages in flight to a client",
               lambda: sum(len(one.outgoing.unacknowledged) for one in core.sessions)),
        Figure("spaps_queued_bytes", "Bytes of waiting and in-flight messages",
               lambda: sum(one.outgoing.bytes for one in core.sessions)),
        Figure("spaps_longest_queue", "Messages that wait for the client with the most",
               lambda: max((len(one.outgoing.queue) for one in core.sessions), default=0)),
        Figure("spaps_membership_pairs", "Pairs of entity and subscription in force in this"
               " process; in mode redis those that the generation does not hold yet",
               lambda: service.memberships.pairs),
        Figure("spaps_pairs_charged", "Pairs that clients' neighborhoods have in the filter",
               lambda: core.shares.pairs.used),
        Figure("spaps_clients_over_pair_quota", "Clients that a new world put over their quota",
               lambda: sum(one.pairs > core.limits.pairs for one in core.sessions)),
        Figure("spaps_world_version", "World version that neighborhoods are resolved on",
               lambda: service.world_version),
        Figure("spaps_generation", "Generation of memberships in force, 0 for none",
               lambda: service.generation),
    )  # fmt: skip
    resolver = service.resolver
    if resolver is not None:
        metrics.add(
            Figure("spaps_resolutions", "Requested neighborhoods, by outcome",
                   lambda: {"resolved": resolver.counts.resolved,
                            "reused": resolver.counts.reused,
                            "refused": resolver.counts.refused},
                   is_counter=True, label="outcome"),
            Figure("spaps_resolver_refusals", "Neighborhoods refused by the resolver's limits",
                   lambda: {"waiting": resolver.counts.crowded, "late": resolver.counts.late},
                   is_counter=True, label="cause"),
            Figure("spaps_resolver_restarts", "Resolver processes that ended and were replaced",
                   lambda: resolver.counts.restarts, is_counter=True),
            Figure("spaps_resolutions_waiting", "Neighborhoods that are being resolved",
                   lambda: resolver.waiting),
        )  # fmt: skip


def _reader(counters: object, name: str) -> Callable[[], float]:
    return lambda: float(getattr(counters, name))


async def sample_filter_times(metrics: Metrics, service: BrokerService) -> None:
    """Move the core's samples to the histogram regularly, until cancelled."""
    times = service.core.counters.filter_times
    while True:
        await asyncio.sleep(SAMPLE_SECONDS)
        taken = list(times)
        times.clear()
        metrics.observe_filter_times(taken)


def pages(metrics: Metrics, health: Callable[[], dict[str, Any]]) -> Pages:
    """Return the pages that operators read."""

    def health_page() -> Page:
        content = health()
        status = HTTPStatus.OK if content["status"] == "ok" else HTTPStatus.SERVICE_UNAVAILABLE
        return Page(json.dumps(content, indent=1).encode() + b"\n", "application/json", status)

    def index() -> Page:
        return Page(b"spaps broker: /health /metrics /entities /why\n")

    return {
        "/": index,
        "/health": health_page,
        "/metrics": lambda: Page(metrics.page(), CONTENT_TYPE),
    }
