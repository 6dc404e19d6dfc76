"""The search process: holds the texts of one world version and answers the broker's searches.

It is a process of its own for the same reasons as the resolver process. It answers one search at a
time and ends when the broker closes its end of the socket.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from broker.resolver.frames import pack_frame, read_frame
from schemas.errors import DescriptorError, SearchError, SpapsError
from world.arrow_without_pandas import hide_pandas_from_arrow
from world.search.entity_search import find_entities
from world.search.search_request import read_request
from world.search.searched_world import SearchedWorld

NICENESS: Final = 10

World = TypeVar("World")


def answer_of(world: SearchedWorld, request: dict[str, Any]) -> dict[str, Any]:
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


def serve(
    load: Callable[[str, int | None], World],
    version_of: Callable[[World], int],
    answer: Callable[[World, dict[str, Any]], dict[str, Any]],
) -> None:
    """Load what answers need of a world, report its version, and answer requests."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--world", required=True)
    arguments.add_argument("--version", type=int)
    arguments.add_argument("--socket", type=int, required=True)
    given = arguments.parse_args()
    # The broker decides when this process ends; a Ctrl-C in the terminal reaches both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    hide_pandas_from_arrow()
    with socket.socket(fileno=given.socket) as link, link.makefile("rb") as requests:
        try:
            world = load(given.world, given.version)
        except SpapsError as error:
            link.sendall(pack_frame({"failed": str(error)}))
            return
        # When the broker has ended, there is nobody to answer.
        with suppress(EOFError, OSError):
            link.sendall(pack_frame({"version": version_of(world)}))
            while True:
                request, _ = read_frame(requests)
                link.sendall(pack_frame(answer(world, request)))


def _load(world: str, version: int | None) -> SearchedWorld:
    searched = SearchedWorld.open(world, version)
    searched.prepare()
    return searched


def main() -> None:
    """Answer searches."""
    serve(_load, lambda world: world.facts.version, answer_of)


if __name__ == "__main__":
    main()
