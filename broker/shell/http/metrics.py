"""Figures for Prometheus. Read when somebody looks, so that counting costs the broker nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# From one look into a dictionary to a route that had to be searched.
FILTER_BUCKETS: Final = (
    5e-7, 1e-6, 2e-6, 3e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2,
)  # fmt: skip

# One number, or one for each value of the figure's label.
Reading: TypeAlias = float | Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Figure:
    """Something to read. A counter only grows; a gauge goes up and down."""

    name: str
    text: str
    read: Callable[[], Reading]
    is_counter: bool = False
    label: str | None = None


class Metrics(Collector):
    """All figures of one broker, in a registry of its own."""

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
        """Show these too."""
        self._figures += figures

    def observe_filter_times(self, seconds: list[float]) -> None:
        """Add samples of the filter's time."""
        for value in seconds:
            self._filter_seconds.observe(value)

    def page(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Read every figure; called by the registry."""
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
