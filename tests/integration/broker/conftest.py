"""What tests on the running broker share."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from world.snapshot import entity_rows
from world.store import WorldStore
from world.synthetic_city import SRID, synthetic_city


@pytest.fixture(scope="session")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world of two versions: 600 entities, then 300 of another seed."""
    folder = tmp_path_factory.mktemp("city")
    store = WorldStore(str(folder))
    for entities, seed in ((600, 1), (300, 2)):
        store.write_version(entity_rows(synthetic_city(entities, seed)), srid=SRID)
    return folder


@dataclass(frozen=True)
class Certificates:
    """A certificate authority of our own, and what it has signed."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


@pytest.fixture(scope="session")
def certificates(
    program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Certificates:
    """Certificates for 127.0.0.1, made as a user would make them."""
    folder = tmp_path_factory.mktemp("certificates")
    openssl = program("openssl")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test CA",
        "-keyout", "ca.key", "-out", "ca.pem")  # fmt: skip
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name in ("server", "client"):
        run("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2",
            "-CAcreateserial", "-extfile", "names", "-out", f"{name}.pem")  # fmt: skip
    return Certificates(
        folder / "ca.pem", folder / "server.pem", folder / "server.key",
        folder / "client.pem", folder / "client.key",
    )  # fmt: skip
