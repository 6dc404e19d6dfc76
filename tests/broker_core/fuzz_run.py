"""A million mutated inputs against the broker's core: ``python -m tests.broker_core.fuzz_run``.

Each block of inputs has a seed of its own, so a block that fails can be run again alone:
``--first-seed N --inputs 5000``. Ends with 1, and with the input, at the first exception.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from tests.broker_core.fuzzing import FuzzCounts, Fuzzer

BLOCK: Final = 5_000
# Enough to see which lines are reached; tracing makes it ten times slower.
TRACED_INPUTS: Final = 5_000
ROOT: Final = Path(__file__).resolve().parent.parent
# What a client's bytes can reach: not the shell, and not what is behind Redis.
ROOMS: Final = (
    "broker/codec",
    "broker/core",
    "broker/core/publish",
    "broker/core/sessions",
    "broker/core/subscribe",
    "broker/filter",
    "schemas",
    "schemas/language",
)


def main() -> int:
    """Run all blocks; 0 when nothing was raised."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--first-seed", type=int, default=1)
    options = parser.parse_args()
    blocks = -(-options.inputs // BLOCK)
    seeds = range(options.first_seed, options.first_seed + blocks)
    total, began = FuzzCounts(), time.perf_counter()
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for done, (seed, counts, failure) in enumerate(pool.imap_unordered(run_block, seeds), 1):
            if failure:
                print(f"\nseed {seed}: {failure}", file=sys.stderr)
                return 1
            _add(total, counts)
            if done % 10 == 0 or done == blocks:
                rate = total.inputs / (time.perf_counter() - began)
                print(f"{total.inputs:>9,} inputs, {rate:,.0f} a second", flush=True)
    for name, value in asdict(total).items():
        print(f"{name:>10}: {value:,}")
    for room, (reached, lines) in reached_lines().items():
        print(f"{room:>14}: {reached:,} of {lines:,} lines in functions ({reached / lines:.0%})")
    print("nothing was raised")
    return 0


def run_block(seed: int) -> tuple[int, FuzzCounts, str]:
    """One block: its seed, what it met, and what was raised, with the input."""
    logging.disable()
    fuzzer = Fuzzer(seed)
    try:
        fuzzer.run(BLOCK)
    except Exception:  # noqa: BLE001 - any exception is what this looks for
        return seed, fuzzer.counts, f"{fuzzer.last!r}\n{traceback.format_exc()}"
    return seed, fuzzer.counts, ""


def reached_lines() -> dict[str, tuple[int, int]]:
    """By room: lines of functions that a traced run reached, and all of them.

    Files that it never entered belong to other tests and are left out.
    """
    logging.disable()
    seen: dict[str, set[int]] = {}

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith((f"{ROOT}/broker/", f"{ROOT}/schemas/")):
            return None
        lines = seen.setdefault(file, set())

        def step(inner: FrameType, _event: str, _argument: Any) -> Any:
            lines.add(inner.f_lineno)
            return step

        return step

    fuzzer = Fuzzer(seed=0)
    sys.settrace(enter)
    try:
        fuzzer.run(TRACED_INPUTS)
    finally:
        sys.settrace(None)
    rooms: dict[str, tuple[int, int]] = {}
    for file, lines in seen.items():
        path = Path(file)
        room = str(path.parent.relative_to(ROOT))
        if room not in ROOMS:
            continue
        wanted = _function_lines(compile(path.read_text(), file, "exec"), is_function=False)
        reached, all_lines = rooms.get(room, (0, 0))
        rooms[room] = (reached + len(lines & wanted), all_lines + len(wanted))
    return rooms


def _function_lines(code: CodeType, *, is_function: bool) -> set[int]:
    """Lines inside functions: those of modules and classes run at import."""
    lines = {line for *_, line in code.co_lines() if line} if is_function else set()
    lines.discard(code.co_firstlineno)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            lines |= _function_lines(constant, is_function=bool(constant.co_flags & 0x01))
    return lines


def _add(total: FuzzCounts, counts: FuzzCounts) -> None:
    for name, value in asdict(counts).items():
        setattr(total, name, getattr(total, name) + value)


if __name__ == "__main__":
    sys.exit(main())
