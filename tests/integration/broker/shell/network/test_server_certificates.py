"""Certificates of the running broker: renewed by SIGHUP, and warnings before they expire."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.shell.network.certificates import Certificates as ServedCertificates
from broker.shell.network.certificates import expiry_of
from schemas.errors import SettingsError
from tests.servers.certificates import Certificates
from tests.servers.raw_client import CONNACK, connect_packet
from tests.servers.running_broker import RunningBroker, running_broker, until

Make = Callable[..., None]


@pytest.fixture
def make(program: Callable[[str], Path], tmp_path: Path) -> Make:
    """Make a self-signed certificate: NAME.pem and NAME.key."""
    openssl = program("openssl")

    def make(name: str, days: int, *options: str) -> None:
        subprocess.run(
            [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", str(days),
             "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
             "-keyout", f"{name}.key", "-out", f"{name}.pem", *options],
            cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip

    return make


def served(broker: RunningBroker) -> bytes:
    """The certificate that a new client gets to see."""
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", broker.ports["tls"]), 30) as plain,
        trust.wrap_socket(plain) as link,
    ):
        found = link.getpeercert(binary_form=True)
    assert found is not None
    return found


def in_file(path: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(path.read_text())


def put(folder: Path, name: str) -> None:
    """Renew the broker's certificate as a tool does that knows nothing of the broker."""
    for suffix in ("pem", "key"):
        shutil.copy(folder / f"{name}.{suffix}", folder / f"server.{suffix}")


def test_sighup_loads_certificates_and_health_tells_their_end(tmp_path: Path, make: Make) -> None:
    for name, days in (("first", 3), ("second", 90)):
        make(name, days)
    put(tmp_path, "first")
    config = f"""
    [broker.listeners.tls]
    type = "tcp"
    bind = "127.0.0.1:0"
    ssl = true
    certfile = "{tmp_path}/server.pem"
    keyfile = "{tmp_path}/server.key"
    """
    arguments = ("--memberships", "none", "--allow-anonymous", "--http", "0")
    with running_broker(tmp_path, *arguments, config=config) as broker:
        assert served(broker) == in_file(tmp_path / "first.pem")
        (warning,) = broker.health()["warnings"]  # type: ignore[misc]
        assert f"certificate {tmp_path}/server.pem expires on " in warning
        assert warning in broker.log, "logged at the start too"
        metric = f'spaps_certificate_expires{{file="{tmp_path}/server.pem"}}'
        assert broker.metric(metric) == expiry_of(tmp_path / "first.pem")

        put(tmp_path, "second")
        broker.reload()
        broker.wait_for_log("certificates loaded again")
        until(lambda: served(broker) == in_file(tmp_path / "second.pem"), "the new certificate")
        assert broker.health()["warnings"] == []

        # A key that does not belong to the certificate: the broker keeps what works.
        shutil.copy(tmp_path / "first.key", tmp_path / "server.key")
        broker.reload()
        broker.wait_for_log("listener tls keeps its old certificate")
        assert served(broker) == in_file(tmp_path / "second.pem")
        assert "keeps its old certificate" in broker.problems()[0]


def test_an_authority_of_clients_that_was_taken_away_is_trusted_no_more(
    tmp_path: Path, certificates: Certificates, make: Make
) -> None:
    make("other", 3)
    trusted = tmp_path / "clients.pem"
    shutil.copy(certificates.authority, trusted)
    config = f"""
    [broker.listeners.tls]
    type = "tcp"
    bind = "127.0.0.1:0"
    ssl = true
    certfile = "{certificates.server}"
    keyfile = "{certificates.server_key}"
    cafile = "{trusted}"
    """
    arguments = ("--memberships", "none", "--allow-anonymous")
    with running_broker(tmp_path, *arguments, config=config) as broker:
        assert lets_in(broker, certificates)
        shutil.copy(tmp_path / "other.pem", trusted)
        broker.reload()
        broker.wait_for_log("certificates loaded again")
        assert not lets_in(broker, certificates)


def lets_in(broker: RunningBroker, certificates: Certificates) -> bool:
    """Whether the broker takes the client's certificate, and so answers to its CONNECT."""
    trust = ssl.create_default_context(cafile=certificates.authority)
    trust.load_cert_chain(certificates.client, certificates.client_key)
    try:
        with (
            socket.create_connection(("127.0.0.1", broker.ports["tls"]), 30) as plain,
            trust.wrap_socket(plain, server_hostname="127.0.0.1") as link,
        ):
            link.sendall(connect_packet())
            return link.recv(1) == bytes((CONNACK,))
    except (ssl.SSLError, ConnectionError):
        return False


def test_dates_are_those_that_openssl_reads(
    tmp_path: Path, make: Make, program: Callable[[str], Path]
) -> None:
    for name, days in (("near", 1), ("far", 20_000)):  # beyond 2049 dates have another form
        make(name, days)
        done = subprocess.run(
            [program("openssl"), "x509", "-enddate", "-noout", "-in", f"{name}.pem"],
            cwd=tmp_path, check=True, capture_output=True, text=True,
        )  # fmt: skip
        expected = ssl.cert_time_to_seconds(done.stdout.strip().partition("=")[2])
        assert expiry_of(tmp_path / f"{name}.pem") == expected
    (tmp_path / "chain.pem").write_text(
        (tmp_path / "far.pem").read_text() + (tmp_path / "near.pem").read_text()
    )
    assert expiry_of(tmp_path / "chain.pem") == expiry_of(tmp_path / "near.pem")
    for broken in ("", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"):
        (tmp_path / "broken.pem").write_text(broken)
        with pytest.raises(SettingsError, match="no certificate in PEM format"):
            expiry_of(tmp_path / "broken.pem")


def test_an_expired_certificate_is_a_problem(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("server", 20)
    files = {"certfile": f"{tmp_path}/server.pem", "keyfile": f"{tmp_path}/server.key"}
    served = ServedCertificates({"tls": {"ssl": True, **files}}, warning_days=14)
    ends = expiry_of(tmp_path / "server.pem")
    for before, warnings, problems in ((15, 0, 0), (14, 1, 0), (0, 0, 1)):
        monkeypatch.setattr("time.time", lambda at=ends - before * 86_400: at)
        assert (len(served.warnings), len(served.problems)) == (warnings, problems), before
