"""The city, and how far neighborhoods reach: time to add one that must be resolved first.

Ours: SUBSCRIBE to SUBACK, with the live resolver. PostGIS: the stored procedure, and its rows
inserted into a table with B-tree indexes, in one transaction; nobody subscribes there. No
reference comes twice within a scope, so that no result is reused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from bench.broker.connection import LoadError
from bench.evaluation.berlin import CityWorkload, Template, one_stage, two_stages
from bench.evaluation.compared import database
from bench.evaluation.compared.servers import Servers
from bench.evaluation.compared.systems import MEMORY, POSTGIS
from bench.evaluation.filtering import CHURN_RATE, added
from bench.evaluation.load.changes import KEPT
from bench.evaluation.load.run import Run
from bench.evaluation.plan import Row, Step
from bench.evaluation.sizes import Sizes, set_up_seconds
from schemas.language.descriptor_json import parse_descriptor
from testing.postgis_peer import PostgisPeer

EXPERIMENT: Final = "scope"
SCOPES: Final[tuple[tuple[int, str, Callable[[int], Template]], ...]] = (
    (100, "one stage", one_stage),
    (500, "one stage", one_stage),
    (100, "two stages", two_stages),
    (500, "two stages", two_stages),
)
COMPARED_ROWS: Final = 3
SAMPLES: Final = 50
# A peer that is so far behind is not waited for.
BEHIND_SECONDS: Final = 10.0
EMPTY: Final = "DROP TABLE IF EXISTS entity; DROP FUNCTION IF EXISTS resolve_neighborhood"
INSERT: Final = (
    "INSERT INTO membership SELECT DISTINCT peid, %s FROM resolve_neighborhood(%s, %s) RETURNING 1"
)
REMOVE: Final = "DELETE FROM membership WHERE sub_id = %s RETURNING 1"


def scope_steps(servers: Servers, city: Callable[[], CityWorkload], sizes: Sizes) -> Iterator[Step]:
    """Yield a step for each scope and system."""
    adding = sum(seconds + 0.3 for _, seconds in sizes.scope_churns) + 1
    for metres, stages, template in SCOPES:
        for name, measure in ((MEMORY, _measure_memory), (POSTGIS, _measure_postgis)):
            if name == MEMORY and MEMORY not in sizes.systems:
                continue
            start = set_up_seconds(MEMORY, 3 * sizes.vehicles, 0) if name == MEMORY else 0.0
            seconds = adding + start
            where = {"system": name, "metres": metres, "stages": stages}
            yield Step(
                EXPERIMENT, f"{metres} m, {stages}: {name}", seconds,
                partial(measure, servers, city, template(metres), where, sizes),
            )  # fmt: skip


def _measure_memory(
    servers: Servers, make_city: Callable[[], CityWorkload], template: Template, where: Row,
    sizes: Sizes,
) -> Row:  # fmt: skip
    city, rows, first = make_city(), [], 0
    changing = city.with_changes(template)
    with servers.system(MEMORY, city) as system, system.open_loop(city) as loop:
        messages = system.messages(city, city.published(max(sizes.messages, 1_000), 3))
        loop.probe(messages)
        for churn, seconds in sizes.scope_churns:
            with system.changes(changing, churn, first) as changes:
                run = loop.run(messages, CHURN_RATE, seconds, changes=changes).run
                first = changes.next_number
            rows.append({**where, "churn": churn, "members": _members(changing), **added(run)})
    return {"scope": rows}


def _measure_postgis(
    servers: Servers, make_city: Callable[[], CityWorkload], template: Template, where: Row,
    sizes: Sizes,
) -> Row:  # fmt: skip
    city, rows, first = make_city().with_changes(template), [], 0
    with servers.database() as connection:
        connection.execute(EMPTY)
        peer = PostgisPeer(connection, city.table)
        database.load(connection, [])
        _compare(peer, city)
        for churn, seconds in sizes.scope_churns:
            run = _add_all(peer, city, churn, seconds, first)
            first += int(seconds * churn)
            rows.append({**where, "churn": churn, "members": _members(city), **added(run)})
    return {"scope": rows}


def _members(city: CityWorkload) -> int:
    first = city.subscriptions
    found = sorted(len(city.members(number)) for number in range(first, first + SAMPLES))
    return found[len(found) // 2]


def _compare(peer: PostgisPeer, city: CityWorkload) -> None:
    """Stop when PostGIS finds other members than we do: then times mean nothing."""
    for number in range(city.subscriptions, city.subscriptions + COMPARED_ROWS):
        descriptor = city.descriptor(number)
        theirs = sorted({peid for peid, _ in peer.resolve(parse_descriptor(descriptor))})
        if theirs != city.members(number).tolist():
            raise LoadError(f"PostGIS finds other members for {descriptor}")


def _add_all(
    peer: PostgisPeer, city: CityWorkload, churn: float, seconds: float, first: int
) -> Run:
    """Resolve and insert at fixed times; each counts from the time at which it was due."""
    took, count = [], int(seconds * churn)
    # Two stages repeat no condition, so the quicker way to write the procedure changes nothing.
    calls = [
        peer.call_of(parse_descriptor(city.descriptor(city.subscriptions + first + number)))
        for number in range(count)
    ]
    own, start = time.process_time(), time.monotonic()
    for number, call in enumerate(calls):
        due = start + (number + 0.5) / churn
        now = time.monotonic()
        if now - due > BEHIND_SECONDS:
            break
        if now < due:
            time.sleep(due - now)
        peer.query(INSERT, (number + 1, *call))
        took.append(1e3 * (time.monotonic() - due))
        if number >= KEPT:
            peer.query(REMOVE, (number + 1 - KEPT,))
    passed = time.monotonic() - start
    peer.query("DELETE FROM membership RETURNING 1")
    return Run(
        rate=0.0, seconds=passed, sent=0, expected=0, delivered=0, median_ms=float("inf"),
        p99_ms=float("inf"), late_ms=0.0, generator_share=(time.process_time() - own) / passed,
        system_share=0.0, gave_up=False, add_ms=tuple(took), adds_missing=count - len(took),
    )  # fmt: skip
