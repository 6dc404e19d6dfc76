"""Writes docs/evaluation.md from the figures and the template of the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Final

from bench.evaluation.compared.systems import BATCHED, DATABASE, MEMORY, REDIS
from bench.evaluation.report import city_findings, findings
from bench.evaluation.report.sentences import Compared, three_digits
from bench.evaluation.throughput import Row

PAGE: Final = "evaluation.md"
TEMPLATE: Final = Path(__file__).with_name("page_template.md")
PUBLISHED_CORES: Final = 24
PUBLISHED_MEMORY: Final = 250_000
PUBLISHED_DATABASE: Final = 150_000
PUBLISHED_FIXED: Final = 100_000
PUBLISHED_DATABASE_US: Final = 70
PUBLISHED_CITY: Final = 50_000


def write_page(results: Row, folder: Path) -> Path:
    """Write the page; return its file."""
    page = folder / PAGE
    page.write_text(Template(TEMPLATE.read_text("utf-8")).substitute(_fields(results)), "utf-8")
    return page


def _fields(results: Row) -> dict[str, str]:
    machine, name = results["machine"], results["city_name"]
    versions = ", ".join(f"{one} {version}" for one, version in results["versions"].items())
    found = {
        "command": results["command"],
        "minutes": f"{results['minutes']:.0f}",
        "machine": f"{machine['cpu']}, {machine['cores']} cores",
        "versions": versions.replace("Mosquitto mosquitto version", "Mosquitto"),
        "load_average": f"{results['load_average']:.1f}",
        "warning": _warning(results),
        "comparison": "\n".join(_comparison(results)),
        "throughput_sizes": _throughput_sizes(results["throughput"]),
        "throughput": findings.throughput(results["throughput"]),
        "knees": "\n".join(findings.knee_table(results["throughput"])),
        "filtering_sizes": findings.points(results["filtering"]),
        "filtering": findings.filtering(results["filtering"]),
        "adding": findings.adding(results["adding"]),
        "city_name": name,
        "city_sizes": city_findings.conditions(results["city"], name),
        "city": city_findings.city(results["city"]),
        "scope": city_findings.scope(results["scope"]),
    }
    return {key: str(value) for key, value in found.items()}


def _warning(results: Row) -> str:
    """Say of a run that is not the full one that it is not to be quoted."""
    if results["size"] == "full":
        return ""
    return (
        f"\n> **These figures come from the *{results['size']}* run:** sizes are smaller, and each "
        "point is measured briefly.\n> They show that everything runs, and orders of magnitude. "
        "For figures to quote, run `make evaluation` on a\n> machine that does nothing else "
        "(about 45 minutes).\n"
    )


def _throughput_sizes(found: Row) -> str:
    return (
        f"{found['subscriptions']:,} subscriptions of {found['members']:,} entities each, held by "
        "100 clients at most,"
    )


def _comparison(results: Row) -> Sequence[str]:
    found = results["throughput"]
    per_core = PUBLISHED_MEMORY / PUBLISHED_CORES
    knee = findings.rates(found, "knee", "is_least")
    held = findings.rates(found, "held", "held_is_least")

    def measured(label: str, name: str, published: float) -> Compared:
        here = f"{knee[name]} (held: {held[name]})"
        return label, three_digits(published), here, found["knee"][name] / published

    rows = [
        measured("knee, main memory, messages a second", MEMORY, PUBLISHED_MEMORY),
        measured("the same for each core of the system", MEMORY, per_core),
        measured("knee, Redis, warm cache", REDIS, PUBLISHED_MEMORY),
        measured("knee, in-database, a query for each publish", DATABASE, PUBLISHED_DATABASE),
        measured("knee, in-database, batched", BATCHED, PUBLISHED_DATABASE),
        *findings.fixed_rows(results["filtering"], PUBLISHED_FIXED, PUBLISHED_DATABASE_US),
        city_findings.compared(results["city"], results["city_name"], PUBLISHED_CITY),
    ]
    return [
        f"| {name} | {published} | {here} | {'' if ratio is None else f'{ratio:.2f}'} |"
        for name, published, here, ratio in rows
    ]
