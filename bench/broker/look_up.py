"""The filter's look-up alone: ``python -m bench.broker.look_up``.

``bench.broker.filter`` times the filter from the bytes of a packet. Here topic and peid were read
before, so what is left is the look-up and the comparison with the topic's route: the part that
more subscriptions can make slower. A process for each size, in turns, to be pinned to one core.
"""

from __future__ import annotations

import gc
import json
import logging
import statistics
import subprocess
import sys
import time
from typing import Final

import numpy as np

from bench.broker import scene
from bench.broker.filled_core import FilledCore
from bench.broker.filter import LOOK_UPS, REPEATS
from broker.filter.memberships import SlotOwner

SIZES: Final = (1_000, 100_000)
MEMBERS: Final = 200
ROUNDS: Final = 3


def look_up_time(filled: FilledCore) -> float:
    """Return the median microseconds for entities that come again."""
    route = filled.core.routes.of(scene.ONE_MATCH.topic.encode())
    published = filled.published.tolist()
    rng = np.random.default_rng(scene.SEED + 2)
    clock, look_up = time.perf_counter_ns, filled.memberships.look_up
    medians = []
    for turn in range(REPEATS + 1):
        times = []
        for peid in published if turn == 0 else rng.choice(published, LOOK_UPS).tolist():
            receiver = None
            began = clock()
            slots = look_up(peid)
            if type(slots) is SlotOwner and slots.home in route.spatial:
                receiver = slots.session
            times.append(clock() - began)
            assert receiver is not None
        medians.append(statistics.median(times) / 1e3)
    return statistics.median(medians[1:])


def main() -> None:
    """Print the time at each size, or with a size as argument, at that one."""
    logging.disable()
    if len(sys.argv) > 1:
        gc.freeze()
        print(look_up_time(FilledCore(int(sys.argv[1]), MEMBERS, in_redis=False)))
        return
    command = [sys.executable, "-m", "bench.broker.look_up"]
    found: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        for size in SIZES:
            output = subprocess.run([*command, str(size)], capture_output=True, check=True)
            found[size].append(float(output.stdout))
    few, many = (statistics.median(found[size]) for size in SIZES)
    print(json.dumps({"microseconds": found, "times slower": round(many / few, 2)}))


if __name__ == "__main__":
    main()
