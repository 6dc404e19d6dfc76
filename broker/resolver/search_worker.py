"""The search process: holds the texts of one world version and answers the broker's searches.

It is a process of its own for the same reasons as the resolver process. It answers one request at a
time and ends when the broker closes its end of the socket.

With ``--keys`` it is the key process, which holds the keys alone and finds entities by key. It is
not the resolver process, so that heavy neighborhoods do not delay publishers, and not the search
process, which ends after a time without searches.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias

from broker.resolver.frames import pack_frame, read_frame
from schemas.errors import DescriptorError, SearchError, SpapsError
from spatial_udfs.entity_keys import peids_of_keys
from spatial_udfs.entity_table import EntityTable
from world.arrow_without_pandas import hide_pandas_from_arrow
from world.search.entity_search import find_entities, read_request
from world.search.searched_world import SearchedWorld
from world.snapshot import load_attributes

NICENESS: Final = 10

Answer: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def found_entities(world: SearchedWorld, request: dict[str, Any]) -> dict[str, Any]:
    """Return the header of the answer: the result, or why there is none."""
    try:
        return {"result": find_entities(world, read_request(request["parameters"])).as_json()}
    except (SearchError, DescriptorError) as error:
        return {"refused": str(error)}
    except SpapsError as error:
        return {"failed": str(error)}
    except MemoryError:
        return {"failed": "the search needs more memory than there is"}
    except Exception as error:  # noqa: BLE001 - every request must be answered
        return {"failed": f"the search failed ({type(error).__name__})"}


def found_keys(table: EntityTable, request: dict[str, Any]) -> dict[str, Any]:
    """Return the peids of the keys that exist."""
    try:
        return {"peids": peids_of_keys(table, request["parameters"]["key"])}
    except Exception as error:  # noqa: BLE001 - every request must be answered
        return {"failed": f"the look-up failed ({type(error).__name__})"}


def main() -> None:
    """Answer searches, or look keys up."""
    options = argparse.ArgumentParser()
    options.add_argument("--world", required=True)
    options.add_argument("--version", type=int)
    options.add_argument("--socket", type=int, required=True)
    options.add_argument("--keys", action="store_true")
    given = options.parse_args()
    # The broker decides when this process ends; a Ctrl-C in the terminal reaches both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    hide_pandas_from_arrow()
    with socket.socket(fileno=given.socket) as link, link.makefile("rb") as requests:
        try:
            version, answer = (_keys if given.keys else _texts)(given.world, given.version)
        except SpapsError as error:
            link.sendall(pack_frame({"failed": str(error)}))
            return
        # When the broker has ended, no answer is read.
        with suppress(EOFError, OSError):
            link.sendall(pack_frame({"version": version}))
            while True:
                request, _ = read_frame(requests)
                link.sendall(pack_frame(answer(request)))


def _texts(world: str, version: int | None) -> tuple[int, Answer]:
    """Return the version that is loaded, and what answers searches."""
    searched = SearchedWorld.open(world, version)
    searched.prepare()
    return searched.facts.version, lambda request: found_entities(searched, request)


def _keys(world: str, version: int | None) -> tuple[int, Answer]:
    """Return the version that is loaded, and what finds keys."""
    table = load_attributes(world, version)
    return table.version, lambda request: found_keys(table, request)


if __name__ == "__main__":
    main()
