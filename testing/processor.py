"""The processor that a figure was measured on."""

from __future__ import annotations

import platform
from pathlib import Path


def cpu_name() -> str:
    """Return the name of the processor as the kernel gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
