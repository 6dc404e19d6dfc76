"""The resolver process: holds one world version and answers the broker's requests.

It is a separate process, because a thread would share the interpreter lock with the event loop:
messages of other clients would wait while a heavy neighborhood is computed. It runs with lower
priority, and ends when the broker closes its end of the socket, however the broker ends.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from broker.codec.reason_codes import ReasonCode
from broker.resolver.frames import pack_frame, read_frame
from broker.resolver.heavy_pairs import HeavyPairs
from broker.resolver.known_peids import peid_parts
from broker.resolver.resolver_requests import ByteCache
from schemas.errors import (
    DescriptorError,
    NoReferenceError,
    ResolutionLimitError,
    ResolverBusyError,
    SpapsError,
)
from schemas.language.explain import neighborhood_warnings
from schemas.language.neighborhood import Neighborhood, References, neighborhood_hash
from schemas.language.notation import read_neighborhood
from schemas.language.reference_words import missing_words, no_reference
from schemas.language.world_warnings import world_warnings
from spatial_udfs.entity_table import EntityTable, Int64s
from spatial_udfs.exact.exact_resolver import ExactResolver
from spatial_udfs.named_references import bound_to
from spatial_udfs.resolution_limits import ResolutionLimits
from world.arrow_without_pandas import hide_pandas_from_arrow
from world.snapshot import load_snapshot
from world.versions.store import WorldStore

# Several threads, so that a light neighborhood does not wait for a heavy one.
THREADS: Final = 4
NICENESS: Final = 10
CACHE_BYTES: Final = 33_554_432
NAMED_REFERENCES: Final = 5
NO_PEIDS: Final[Int64s] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _CachedResolution:
    """A neighborhood that was resolved: its members, and the header of the answer."""

    peids: Int64s
    missing: References
    members_of_stages: int
    unmatched_patterns: tuple[str, ...]


class Worker:
    """Answers the requests on one socket."""

    def __init__(self, table: EntityTable, link: socket.socket) -> None:
        self._table = table
        self._resolver = ExactResolver(table)
        self._link = link
        self._heavy = HeavyPairs()
        self._sending = threading.Lock()
        self._remembering = threading.Lock()
        self._known: ByteCache[_CachedResolution] = ByteCache(CACHE_BYTES)

    def warm_up(self) -> None:
        """Compute all pairs ahead."""
        self._resolver.warm_up()

    def serve(self) -> None:
        """Answer requests until the broker closes the socket, or is killed."""
        threads = ThreadPoolExecutor(THREADS)
        with self._link.makefile("rb") as requests, suppress(EOFError, ConnectionResetError):
            while True:
                request, _ = read_frame(requests)
                # The time starts here: waiting for a thread counts too.
                limits = ResolutionLimits.within(
                    request["seconds"], request["max_members"], self._heavy.relate
                )
                threads.submit(self._answer, request, limits)

    def _answer(self, request: dict[str, Any], limits: ResolutionLimits) -> None:
        number = request["number"]
        try:
            if "peid" in request:
                header, peids = self._find(request["descriptor"], request["peid"], limits), NO_PEIDS
            else:
                header, peids = self._resolve(request["descriptor"], limits)
        except SpapsError as error:
            lacks = isinstance(error, NoReferenceError)
            header = {"reason": reason_of(error), "text": str(error), "lacks_references": lacks}
            peids = NO_PEIDS
        except MemoryError:
            text = "the neighborhood needs more memory than there is"
            header, peids = {"reason": ReasonCode.QUOTA_EXCEEDED, "text": text}, NO_PEIDS
        except Exception as error:  # noqa: BLE001 - every request must be answered
            text = f"the neighborhood could not be resolved ({type(error).__name__})"
            header, peids = {"reason": ReasonCode.UNSPECIFIED_ERROR, "text": text}, NO_PEIDS
        self.send({"number": number, **header}, peids)

    def _find(self, descriptor: str, peid: int, limits: ResolutionLimits) -> dict[str, Any]:
        """Return what each stage of a neighborhood has to do with an entity."""
        neighborhood, _ = bound_to(read_neighborhood(descriptor), self._table)
        findings = self._resolver.findings(neighborhood, peid, limits)
        return {"findings": [asdict(one) for one in findings]}

    def _resolve(self, descriptor: str, limits: ResolutionLimits) -> tuple[dict[str, Any], Int64s]:
        written = read_neighborhood(descriptor)
        neighborhood, unknown = bound_to(written, self._table)
        digest = neighborhood_hash(neighborhood)
        with self._remembering:
            known = self._known.get(digest)
        if known is None:
            try:
                known = self._compute(neighborhood, limits)
            except NoReferenceError:
                # What the client wrote, keys and names too.
                raise no_reference(written, self._table.version) from None
            with self._remembering:
                self._known.put(digest, known, known.peids.nbytes)
        else:
            # It may have been computed for a request with higher limits.
            limits.check_members(known.members_of_stages)
        missing = missing_words(
            unknown._replace(peids=known.missing.peids, places=known.missing.places)
        )
        warnings = [
            *neighborhood_warnings(neighborhood),
            *_missing_in_words(missing),
            *world_warnings(
                neighborhood,
                known.unmatched_patterns,
                len(known.peids),
                self._resolver.version,
                self._table.category_names,
            ),
        ]
        is_rewritten = bool(written.keys or written.names or written.places)
        header = {
            "hash": digest,
            "warnings": warnings,
            "members": known.members_of_stages,
            "rewritten": is_rewritten,
        }
        if is_rewritten or not descriptor.lstrip().startswith("{"):
            header["json"] = neighborhood.to_json()
        return header, known.peids

    def _compute(self, neighborhood: Neighborhood, limits: ResolutionLimits) -> _CachedResolution:
        limits.check_time()
        resolution = self._resolver.resolve(neighborhood, limits)
        return _CachedResolution(
            resolution.peids(),
            References(resolution.missing_refs, places=resolution.missing_places),
            sum(map(len, resolution.stages)),
            self._resolver.unmatched_patterns(neighborhood),
        )

    def send(self, header: dict[str, Any], *arrays: Int64s) -> None:
        """Send a frame; ignored when the broker has ended."""
        with self._sending:
            try:
                self._link.sendall(pack_frame(header, *arrays))
            except OSError:
                os._exit(0)


def reason_of(error: SpapsError) -> ReasonCode:
    """Return the reason code of a SUBACK for an error in resolving.

    docs/decisions/0210-a-reason-code-says-what-to-do.md
    """
    match error:
        case ResolverBusyError():
            return ReasonCode.UNSPECIFIED_ERROR
        case ResolutionLimitError():
            return ReasonCode.QUOTA_EXCEEDED
        case DescriptorError():
            return ReasonCode.TOPIC_FILTER_INVALID
        case NoReferenceError():
            return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        case _:
            return ReasonCode.UNSPECIFIED_ERROR


def _missing_in_words(missing: tuple[int | str, ...]) -> list[str]:
    if not missing:
        return []
    shown = ", ".join(map(str, missing[:NAMED_REFERENCES]))
    more = " …" if len(missing) > NAMED_REFERENCES else ""
    return [f"references that do not exist: {shown}{more}"]


def main() -> None:
    """Load the world, report it, and answer requests."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--world", required=True)
    arguments.add_argument("--version", type=int)
    arguments.add_argument("--socket", type=int, required=True)
    given = arguments.parse_args()
    # The broker decides when this process ends; a Ctrl-C in the terminal reaches both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    hide_pandas_from_arrow()
    with socket.socket(fileno=given.socket) as link:
        try:
            table = load_snapshot(given.world, given.version)
            world = WorldStore(given.world).world_id()
            worker = Worker(table, link)
        except SpapsError as error:
            link.sendall(pack_frame({"failed": str(error)}))
            return
        parts = list(peid_parts(table.peids))
        worker.send({"version": table.version, "world": world, "peid_parts": len(parts)})
        for part in parts:
            worker.send({}, part)
        # Seconds of work that make later neighborhoods fast; requests that arrive meanwhile are
        # answered at the same time.
        threading.Thread(target=worker.warm_up, name="warm-up", daemon=True).start()
        worker.serve()
        # At once: threads may still compute, but no request waits for them.
        os._exit(0)


if __name__ == "__main__":
    main()
