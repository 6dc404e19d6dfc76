"""Writes docs/evaluation.md from the figures and the template of the page."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Final

from bench.evaluation.plan import Row
from bench.evaluation.report import city_findings, findings, knees
from bench.evaluation.report.adding import adding, resolved_sizes
from bench.evaluation.report.sentences import NOT_MEASURED, Compared, ratio_words

PAGE: Final = "evaluation.md"
TEMPLATE: Final = Path(__file__).with_name("page_template.md")
PUBLISHED_CORES: Final = 24
PUBLISHED_MEMORY: Final = 250_000
PUBLISHED_DATABASE: Final = 150_000
PUBLISHED_FIXED: Final = 100_000
PUBLISHED_DATABASE_US: Final = 70
PUBLISHED_CITY: Final = 50_000
# Plot, what it shows for those who do not see it, and the table that it needs.
PLOTS: Final = (
    ("throughput", "median latency by publish rate", "sweeps"),
    ("subscriptions", "latency by number of subscriptions", "filtering"),
    ("members", "latency by size of filters", "filtering"),
    ("adding", "time to add a subscription", "adding"),
    ("resolved", "time to add a subscription with resolution", "adding"),
    ("city", "rolling median", "city"),
    ("scope", "time to add by scope", "scope"),
)


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
        "runs": "one run"
        if results["starts"] == 1
        else f"{results['starts']} runs, one resumed after the other, and",
        "minutes": f"{results['minutes']:.0f}",
        "machine": f"{machine['cpu']}, {machine['cores']} cores",
        "versions": versions,
        "messages": f"{results['messages']:,}",
        "load_average": f"{results['load_average']:.1f}",
        "warning": _warning(results),
        "left_out": _left_out(results["left_out"]),
        "comparison": "\n".join(_comparison(results)),
        "city_name": name,
        **{f"{plot}_plot": _image(results, words, table, plot) for plot, words, table in PLOTS},
        **_sections(results, name),
    }
    return {key: str(value) for key, value in found.items()}


def _sections(results: Row, name: str) -> dict[str, str]:
    """Return what is said of each plot, and the conditions that depend on sizes."""
    found = dict.fromkeys(
        ("throughput", "knees", "filtering_sizes", "by_subscriptions", "by_members", "lightest",
         "adding", "resolved", "resolved_sizes", "city_sizes", "city", "scope"), ""
    )  # fmt: skip
    found["throughput_sizes"] = (
        f"{results['subscriptions']:,} subscriptions of {results['members']:,} entities each"
    )
    if "sweeps" in results:
        sweeps = knees.Sweeps(results["sweeps"])
        found |= {"throughput": knees.throughput(sweeps), "knees": knees.knee_table(sweeps)}
    if rows := results.get("filtering"):
        found |= {
            "filtering_sizes": findings.points(rows), "lightest": findings.lightest(rows),
            "by_subscriptions": findings.filtering(rows, "subscriptions"),
            "by_members": findings.filtering(rows, "members"),
        }  # fmt: skip
    if rows := results.get("adding"):
        found |= {
            "adding": adding(rows, is_resolved=False), "resolved": adding(rows, is_resolved=True),
            "resolved_sizes": resolved_sizes(rows),
        }  # fmt: skip
    if rows := results.get("city"):
        found["city_sizes"] = city_findings.conditions(results["city_scene"], name)
        found["city"] = city_findings.city(rows)
    if rows := results.get("scope"):
        found["scope"] = city_findings.scope(rows)
    return found


def _image(results: Row, words: str, table: str, plot: str) -> str:
    if not results.get(table):
        return NOT_MEASURED
    return f"![{words}](figures/evaluation-{plot}.png)"


def _warning(results: Row) -> str:
    """Say of a run that is not the full one that it is not to be quoted."""
    if results["size"] == "full":
        return ""
    return (
        f"\n> **These figures come from the *{results['size']}* run:** sizes are smaller, and each "
        "point is measured briefly.\n> They show that everything runs, and orders of magnitude. "
        "For figures to quote, run `make evaluation` on a\n> machine that does nothing else "
        "(about half an hour).\n"
    )


def _left_out(left_out: dict[str, str]) -> str:
    """List what failed or was not reached."""
    if not left_out:
        return ""
    lines = [f"- {step}: {reason}" for step, reason in left_out.items()]
    return "\n".join(["\n**Left out of this run:**\n", *lines, ""])


def _comparison(results: Row) -> list[str]:
    rows: list[Compared] = []
    if "sweeps" in results:
        sweeps = knees.Sweeps(results["sweeps"])
        rows += knees.compared(sweeps, PUBLISHED_MEMORY, PUBLISHED_CORES, PUBLISHED_DATABASE)
    if filtering := results.get("filtering"):
        rows += findings.compared(filtering, PUBLISHED_FIXED, PUBLISHED_DATABASE_US)
    if city := results.get("city"):
        scene, name = results["city_scene"], results["city_name"]
        rows.append(city_findings.compared(city, scene, name, PUBLISHED_CITY))
    return [
        f"| {name} | {published} | {here} | {'' if ratio is None else ratio_words(ratio)} |"
        for name, published, here, ratio in rows
    ]
