"""The sweeps of throughput, by system, and what the page says of them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from bench.evaluation.compared.systems import (
    BATCHED,
    DATABASE,
    MEMORY,
    MEMORY_COLD,
    MOSQUITTO,
    NONE,
    REDIS,
    REDIS_COLD,
)
from bench.evaluation.plan import Row
from bench.evaluation.report.sentences import (
    Compared,
    generator,
    milliseconds,
    paragraph,
    slower,
    three_digits,
    times,
)

ROUNDING: Final = 1e-6


class Sweeps:
    """All rounds of all systems."""

    def __init__(self, sweeps: Sequence[Row]) -> None:
        self.runs: dict[str, list[Row]] = {}
        self._knees: dict[str, list[Row]] = {}
        for one in sweeps:
            self.runs.setdefault(one["system"], []).extend(one["runs"])
            self._knees.setdefault(one["system"], []).append(one["knee"])

    def __contains__(self, name: str) -> bool:
        """Return whether a system was driven."""
        return name in self.runs

    def plateau(self, name: str) -> float:
        """Return the lowest median, in milliseconds."""
        return float(median(one["plateau_ms"] for one in self._knees[name]))

    def knee(self, name: str) -> float:
        """Return the rate at which latency leaves its plateau."""
        return float(median(one["rate"] for one in self._knees[name]))

    def held(self, name: str) -> float:
        """Return the highest rate at which no queue grows."""
        return float(median(one["held_rate"] for one in self._knees[name]))

    def knee_words(self, name: str) -> str:
        """Return the knee in words."""
        return self._words(name, self.knee(name), "is_least")

    def held_words(self, name: str) -> str:
        """Return the rate that is held in words."""
        return self._words(name, self.held(name), "held_is_least")

    def _words(self, name: str, rate: float, least: str) -> str:
        is_least = any(one[least] for one in self._knees[name])
        return f"{'at least ' if is_least else ''}{three_digits(rate)}"


def throughput(found: Sweeps) -> str:
    """Return what the plot of throughput shows."""
    lines = []
    if MEMORY in found:
        lines.append(
            f"In memory mode the knee is {found.knee_words(MEMORY)} messages a second, and"
            f" {found.held_words(MEMORY)} are held."
        )
    if MEMORY in found and MOSQUITTO in found:
        knees, held = (
            times(ours / theirs) if theirs else "many times"
            for ours, theirs in (
                (found.knee(MEMORY), found.knee(MOSQUITTO)),
                (found.held(MEMORY), found.held(MOSQUITTO)),
            )
        )
        compared = slower(found.plateau(MEMORY), found.plateau(MOSQUITTO))
        lines.append(
            f"With Mosquitto they are {found.knee_words(MOSQUITTO)} and"
            f" {found.held_words(MOSQUITTO)}:"
            f" ours are {knees} and {held} as high; at low rates a message takes"
            f" {milliseconds(found.plateau(MEMORY))} ms with us, {compared} with Mosquitto"
            f" ({milliseconds(found.plateau(MOSQUITTO))} ms)."
        )
    others = [
        f"{name} {found.held_words(name)}"
        for name in (NONE, MEMORY_COLD, REDIS, REDIS_COLD, BATCHED, DATABASE)
        if name in found
    ]
    if others:
        lines.append(f"The others hold, in messages a second: {'; '.join(others)}.")
    lines.append(generator([row for rows in found.runs.values() for row in rows]))
    return paragraph(lines)


def knee_table(found: Sweeps) -> str:
    """Return the table of knees, with both cores at the highest rate that was held."""
    columns = (
        "system", "plateau, ms", "knee, messages a second", "held, messages a second",
        "there: µs a message", "core of the system", "core of the generator", "what ends it",
    )  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "|---|--:|--:|--:|--:|--:|--:|---|"]
    for name, rows in found.runs.items():
        held = found.held(name)
        nearest = min(rows, key=lambda row: abs(row["rate"] - held))
        # Rates of rows are rounded.
        above = [row for row in rows if row["rate"] > held * (1 + ROUNDING)]
        end = min(above, key=lambda row: row["rate"], default=None)
        why = "the last rate" if end is None else "the system"
        if end is not None and end["generator_is_limit"]:
            why = "the generator"
        lines.append(
            f"| {name} | {found.plateau(name):.2f} | {found.knee_words(name)} "
            f"| {found.held_words(name)} "
            f"| {nearest['microseconds']:.1f} | {nearest['system_share']:.0%} "
            f"| {nearest['generator_share']:.0%} | {why} |"
        )
    return "\n".join(lines)


def compared(found: Sweeps, published: int, cores: int, in_database: int) -> list[Compared]:
    """Return what the table says of throughput."""
    wanted = (
        ("knee, main memory, messages a second", MEMORY, float(published)),
        ("the same for each core of the system", MEMORY, published / cores),
        ("knee, main memory, no look-up remembered", MEMORY_COLD, float(published)),
        ("knee, Redis with a warm cache, beside main memory", REDIS, float(published)),
        ("knee, in-database, a query for each publish", DATABASE, float(in_database)),
        ("knee, in-database, batched", BATCHED, float(in_database)),
    )
    return [
        (label, f"about {three_digits(rate)}",
         f"{found.knee_words(name)} (held: {found.held_words(name)})", found.knee(name) / rate)
        for label, name, rate in wanted
        if name in found
    ]  # fmt: skip
