"""The city, and how far neighborhoods reach: time to add one that must be resolved first.

Ours: SUBSCRIBE to SUBACK, with the live resolver. PostGIS: the stored procedure, and its rows
inserted into a table with B-tree indexes, in one transaction; nobody subscribes there. No
reference comes twice within a scope, so that no result is reused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from bench.evaluation.berlin import CityWorkload, Template, one_stage, two_stages
from bench.evaluation.compared import database
from bench.evaluation.compared.servers import Servers
from bench.evaluation.compared.systems import MEMORY, POSTGIS
from bench.evaluation.filtering import CHURN_RATE, added
from bench.evaluation.load.changes import KEPT
from bench.evaluation.load.run import Run
from bench.evaluation.sizes import Sizes
from bench.evaluation.throughput import Row, Say
from schemas.language.descriptor_json import parse_descriptor
from testing.postgis_peer import PostgisPeer

SCOPES: Final[tuple[tuple[int, str, Callable[[int], Template]], ...]] = (
    (100, "one stage", one_stage),
    (500, "one stage", one_stage),
    (100, "two stages", two_stages),
    (500, "two stages", two_stages),
)
COMPARED_ROWS: Final = 3
# A peer that is so far behind is not waited for.
BEHIND_SECONDS: Final = 10.0
INSERT: Final = (
    "INSERT INTO membership SELECT DISTINCT peid, %s FROM resolve_neighborhood(%s, %s) RETURNING 1"
)
REMOVE: Final = "DELETE FROM membership WHERE sub_id = %s RETURNING 1"


def measure_scope(servers: Servers, city: CityWorkload, sizes: Sizes, say: Say) -> list[Row]:
    """Return the time to add by scope, stages and churn, for both."""
    rows: list[Row] = []
    with servers.system(MEMORY, city) as system:
        loop = system.open_loop(city)
        messages = system.messages(city, city.published(max(sizes.messages, 1_000), 3))
        loop.probe(messages)
        for metres, stages, template in SCOPES:
            say(f"scope: {metres} m, {stages}: {MEMORY}")
            changing, first = city.with_changes(template(metres)), 0
            for churn in sizes.scope_churns:
                changes = system.changes(changing, churn, first)
                run = loop.run(messages, CHURN_RATE, sizes.scope_seconds, changes=changes).run
                first = changes.next_number
                changes.socket.close()
                where = _where(changing, metres, stages, churn)
                rows.append({"system": MEMORY, **where, **added(run)})
        loop.close()
    if servers.postgres is None:
        return rows
    say("scope: loading PostGIS")
    peer = PostgisPeer(servers.postgres, city.table)
    database.load(servers.postgres, [])
    for metres, stages, template in SCOPES:
        say(f"scope: {metres} m, {stages}: {POSTGIS}")
        changing = city.with_changes(template(metres))
        _compare(peer, changing)
        for churn in sizes.scope_churns:
            run = _add_all(peer, changing, churn, sizes.scope_seconds)
            where = _where(changing, metres, stages, churn)
            rows.append({"system": POSTGIS, **where, **added(run)})
    return rows


def _where(city: CityWorkload, metres: int, stages: str, churn: float) -> Row:
    first = city.subscriptions
    members = [len(city.members(number)) for number in range(first, first + 50)]
    return {
        "metres": metres, "stages": stages, "churn": churn,
        "members": sorted(members)[len(members) // 2],
    }  # fmt: skip


def _compare(peer: PostgisPeer, city: CityWorkload) -> None:
    """Stop when PostGIS finds other members than we do: then times mean nothing."""
    for number in range(city.subscriptions, city.subscriptions + COMPARED_ROWS):
        descriptor = city.descriptor(number)
        theirs = sorted({peid for peid, _ in peer.resolve(parse_descriptor(descriptor))})
        if theirs != city.members(number).tolist():
            raise SystemExit(f"PostGIS finds other members for {descriptor}")


def _add_all(peer: PostgisPeer, city: CityWorkload, churn: float, seconds: float) -> Run:
    """Resolve and insert at fixed times; each counts from the time at which it was due."""
    took, count = [], int(seconds * churn)
    start = time.monotonic()
    for number in range(count):
        neighborhood = parse_descriptor(city.descriptor(city.subscriptions + number))
        # Two stages repeat no condition, so the quicker way to write the procedure changes nothing.
        call = peer.call_of(neighborhood)
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
    return Run(
        rate=0.0, seconds=seconds, sent=0, expected=0, delivered=0, median_ms=float("inf"),
        p99_ms=float("inf"), late_ms=0.0, generator_share=0.0, system_share=0.0, gave_up=False,
        add_ms=tuple(took), adds_missing=count - len(took),
    )  # fmt: skip
