"""Memberships in PostgreSQL, as the original design filters inside a database.

This mode exists in the evaluation alone. The broker around it is ours, unchanged: it reads
packets, asks for the subscriptions of an entity, and delivers. Only the answer comes from
a table (peid, sub_id) with B-tree indexes: by one query for each publish, or, batched, by one query
for all publishes that arrived in one read. Nothing is remembered. A subscription is in force when
its rows are committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import numpy as np
import psycopg

from broker.core.requests import Resolve
from broker.filter.memberships import SlotOwner, Slots, SlotSizes
from broker.resolver.resolver_requests import VersionResolution
from spatial_udfs.entity_table import Int64s

TABLE: Final = "CREATE UNLOGGED TABLE membership (peid bigint NOT NULL, sub_id int NOT NULL)"
INDEXES: Final = (
    "CREATE INDEX membership_peid ON membership USING btree (peid, sub_id)",
    "CREATE INDEX membership_sub_id ON membership USING btree (sub_id)",
)
ONE: Final = "SELECT sub_id FROM membership WHERE peid = %s"
MANY: Final = "SELECT peid, sub_id FROM membership WHERE peid = ANY(%s)"
COPY: Final = "COPY membership (peid, sub_id) FROM STDIN (FORMAT BINARY)"
REMOVE: Final = "DELETE FROM membership WHERE sub_id = ANY(%s)"
# Look-ups that may be under way at the same time; one more writes.
READERS: Final = 4

# PostgreSQL's binary format: a head, rows of two columns with their lengths, an end.
_HEAD: Final = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_END: Final = b"\xff\xff"
_ROW: Final = np.dtype(
    [("columns", ">i2"), ("l1", ">i4"), ("peid", ">i8"), ("l2", ">i4"), ("sub_id", ">i4")]
)

SlotsBySubId = Callable[[], Mapping[int, int]]


def _rows(peids: Int64s, sub_id: int) -> bytes:
    """Return the rows of a subscription in the format of COPY."""
    rows = np.empty(len(peids), _ROW)
    rows["columns"], rows["l1"], rows["l2"] = 2, 8, 4
    rows["peid"], rows["sub_id"] = peids, sub_id
    return rows.tobytes()


def load(connection: psycopg.Connection[Any], blocks: Iterable[tuple[Int64s, int]]) -> None:
    """Fill an empty table with the members of subscriptions, and make its indexes."""
    connection.execute("DROP TABLE IF EXISTS membership")
    connection.execute(TABLE)
    with connection.cursor() as cursor, cursor.copy(COPY) as copy:
        copy.write(_HEAD)
        for peids, sub_id in blocks:
            copy.write(_rows(peids, sub_id))
        copy.write(_END)
    for index in INDEXES:
        connection.execute(index)
    connection.execute("VACUUM ANALYZE membership")


class DatabaseMemberships:
    """Knows nothing of members: every look-up must be asked for."""

    serves_neighborhoods = True
    # None of them is in this process.
    pairs = 0

    def __init__(self) -> None:
        self.slot_owners: list[SlotOwner] = []
        self.reusable: list[int] = []
        self.look_up_function = self.look_up
        self._sizes = SlotSizes()
        self._announced: dict[int, int] = {}

    def look_up(self, peid: int) -> Slots | None:  # noqa: ARG002 - the protocol's shape
        """Return None: the database must be asked."""
        return None

    def add(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:  # noqa: ARG002 - the protocol's shape
        """Note the size; the rows are in the table already."""
        self._sizes.add(slot, len(peids))

    def begin(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:  # noqa: ARG002 - the protocol's shape
        """Note the size of a large neighborhood."""
        self._announced[slot] = len(peids)

    def is_outdated(self, slot: int) -> bool:  # noqa: ARG002 - the protocol's shape
        """Return False: there is one world."""
        return False

    def add_some(self, slot: int, most: int) -> bool:  # noqa: ARG002 - the protocol's shape
        """Return True: the rows are in the table already."""
        self._sizes.add(slot, self._announced.pop(slot))
        return True

    def size_of(self, slot: int) -> int:
        """Return the number of members of a subscription."""
        return self._sizes.of_slot(slot)

    def remove(self, slot: int) -> None:
        """Free the slot; the registry removes the rows."""
        self._announced.pop(slot, None)
        self._sizes.take(slot)
        self.reusable.append(slot)

    def sweep(self, budget: int) -> bool:  # noqa: ARG002 - the protocol's shape
        """Return False: there is nothing to clean."""
        return False


class Database:
    """Connections to the server, for readers and one writer; made when first needed."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._free: asyncio.Queue[psycopg.AsyncConnection[Any]] = asyncio.Queue()
        self._count = 0
        self.writing = asyncio.Lock()
        self._writer: psycopg.AsyncConnection[Any] | None = None

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Give a connection that nobody else uses."""
        if self._free.empty() and self._count < READERS:
            self._count += 1
            connection = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)
        else:
            connection = await self._free.get()
        try:
            yield connection
        finally:
            self._free.put_nowait(connection)

    async def writer(self) -> psycopg.AsyncConnection[Any]:
        """Return the connection for changes, to be used under ``writing``."""
        if self._writer is None:
            self._writer = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)
        return self._writer


class DatabaseReader:
    """Asks the database which subscriptions hold an entity."""

    def __init__(self, database: Database, slots: SlotsBySubId, *, batched: bool) -> None:
        self._database = database
        self._slots = slots
        self._ask = self._by_one_query if batched else self._by_query_each

    async def look_up(self, peids: Sequence[int]) -> Mapping[int, Slots]:
        """Return the slots of every peid."""
        async with self._database.reader() as connection:
            found = await self._ask(connection, peids)
        slots = self._slots()
        return {
            peid: sorted(slots[number] for number in numbers if number in slots)
            for peid, numbers in found.items()
        }

    async def _by_query_each(
        self, connection: psycopg.AsyncConnection[Any], peids: Sequence[int]
    ) -> dict[int, list[int]]:
        """One query for each publish; they are sent without waiting for each answer."""
        async with connection.pipeline():
            cursors = [await connection.execute(ONE, (peid,), prepare=True) for peid in peids]
            return {
                peid: [row[0] for row in await cursor.fetchall()]
                for peid, cursor in zip(peids, cursors, strict=True)
            }

    async def _by_one_query(
        self, connection: psycopg.AsyncConnection[Any], peids: Sequence[int]
    ) -> dict[int, list[int]]:
        """One query for everything that was read at once."""
        found: dict[int, list[int]] = {peid: [] for peid in peids}
        cursor = await connection.execute(MANY, (list(peids),), prepare=True, binary=True)
        for peid, number in await cursor.fetchall():
            found[peid].append(number)
        return found


class DatabaseRegistry:
    """Numbers subscriptions and writes their rows; the first ``loaded`` have theirs already."""

    def __init__(self, database: Database, loaded: int) -> None:
        self._database = database
        self._loaded = loaded
        self._last = 0

    async def register(self, request: Resolve, resolution: VersionResolution) -> tuple[int, ...]:
        """Return the subIds once the rows are committed."""
        first = self._last + 1
        self._last += len(request.filters)
        numbers = tuple(range(first, self._last + 1))
        for number in numbers:
            if number <= self._loaded:
                continue
            async with self._database.writing:
                connection = await self._database.writer()
                async with connection.cursor() as cursor, cursor.copy(COPY) as copy:
                    await copy.write(_HEAD + _rows(resolution.peids, number) + _END)
        return numbers

    async def forget(self, sub_ids: Sequence[int]) -> None:
        """Remove the rows of subscriptions that are over."""
        async with self._database.writing:
            await (await self._database.writer()).execute(REMOVE, (list(sub_ids),))
