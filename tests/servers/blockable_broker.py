"""``spaps broker`` whose event loop stands still for some seconds at SIGUSR1.

The handler computes in the main thread and never sleeps, as a handler of a heavy packet would.
Run as a program: the first argument is the number of seconds.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from spaps.cli.command_line import main


def block(*_: object) -> None:
    os.write(2, b"blocked\n")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
    os.write(2, b"goes on\n")


if __name__ == "__main__":
    seconds = float(sys.argv.pop(1))
    signal.signal(signal.SIGUSR1, block)
    main()
