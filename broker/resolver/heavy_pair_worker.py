"""A process that relates one pair of geometries at a time, and is ended when that takes too long.

GEOS cannot be interrupted, and relating two areas with 100,000 vertices each can take minutes. The
alarm clock of this process ends it, also in the middle of GEOS.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import time
from typing import BinaryIO, Final

import shapely

# The deadline by the machine's monotonic clock, and the lengths of two geometries in WKB.
HEADER: Final = struct.Struct("<dQQ")
NICENESS: Final = 5


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each request with a matrix of nine characters, until there are no more."""
    while len(header := requests.read(HEADER.size)) == HEADER.size:
        deadline, first, second = HEADER.unpack(header)
        # SIGALRM is not caught: it ends the process.
        signal.setitimer(signal.ITIMER_REAL, max(deadline - time.monotonic(), 0.001))
        pair = shapely.from_wkb([requests.read(first), requests.read(second)])
        matrix = shapely.relate(pair[0], pair[1])
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(matrix.encode())
        answers.flush()


if __name__ == "__main__":
    # The resolver decides when this process ends; a Ctrl-C in the terminal reaches both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        os._exit(0)
