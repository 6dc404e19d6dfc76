"""How each system is drawn in all plots: told apart by marker and line, also without colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.evaluation.compared import systems


@dataclass(frozen=True)
class Style:
    """How one system is drawn everywhere: colour, marker, line."""

    color: str
    marker: str
    line: str = "-"


STYLES: Final = {
    systems.MEMORY: Style("#000000", "o"),
    systems.MEMORY_COLD: Style("#000000", "o", "--"),
    systems.REDIS: Style("#0072b2", "s"),
    systems.REDIS_COLD: Style("#0072b2", "s", "--"),
    systems.NONE: Style("#777777", "v", ":"),
    systems.DATABASE: Style("#b04a00", "D"),
    systems.BATCHED: Style("#b04a00", "D", "--"),
    systems.POSTGIS: Style("#b04a00", "D"),
    systems.MOSQUITTO: Style("#008060", "^", "-."),
    systems.AMQTT: Style("#a05080", "P", ":"),
}
