"""Certificates that tests give to servers and clients."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """A certificate authority of our own, and what it has signed."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
