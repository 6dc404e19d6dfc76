"""What memory mode costs: bytes for each pair, microseconds for a look-up, milliseconds to add.

    python -m bench.broker.memberships [--subscriptions 1000] [--members 2000]

Run in a fresh process: memory is the growth of the resident set. Times are CPU time.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from pathlib import Path

import numpy as np

from broker.filter.memberships_memory import MemoryMemberships, give_back_memory

LOOK_UPS = 20_000
ADDED = 50


def resident_bytes() -> int:
    """Return memory of this process that is in use."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4_096


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--subscriptions", type=int, default=1_000)
    parser.add_argument("--members", type=int, default=2_000)
    parser.add_argument("--universe", type=int, default=2_000_000)
    options = parser.parse_args()
    rng = np.random.default_rng(1)

    def neighborhood() -> np.ndarray:
        return np.unique(rng.integers(0, options.universe, options.members))

    neighborhood()
    memberships = MemoryMemberships()
    gc.collect()
    before = resident_bytes()
    for slot in range(options.subscriptions):
        memberships.add(slot, neighborhood())
    give_back_memory()
    pairs = len(memberships)
    figures = {"pairs": pairs, "bytes_per_pair": (resident_bytes() - before) / pairs}

    peids = rng.integers(0, options.universe, LOOK_UPS).tolist()
    times = []
    for peid in peids:
        began = time.perf_counter_ns()
        memberships.look_up(peid)
        times.append(time.perf_counter_ns() - began)
    figures["look_up_median_us"] = statistics.median(times) / 1e3

    times = []
    for slot in range(options.subscriptions, options.subscriptions + ADDED):
        members = neighborhood()
        began = time.process_time_ns()
        memberships.add(slot, members)
        times.append(time.process_time_ns() - began)
    figures["add_median_ms"] = statistics.median(times) / 1e6

    times = []
    for slot in range(options.subscriptions, options.subscriptions + ADDED):
        began = time.process_time_ns()
        memberships.remove(slot)
        times.append(time.process_time_ns() - began)
    figures["remove_median_ms"] = statistics.median(times) / 1e6
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
