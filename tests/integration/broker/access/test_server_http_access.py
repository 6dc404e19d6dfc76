"""The HTTP pages of the running broker: who may read them, and slow visitors."""

from __future__ import annotations

import base64
import socket
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from broker.access.passwords import hash_password
from spaps.cli.commands.top_command import read_page
from spaps.client.errors import NotConnectedError
from tests.servers.running_broker import COMMAND, PATIENCE, running_broker

NO_WORLD = ("--memberships", "none")


def test_64_slow_visitors_do_not_shut_out_health(tmp_path: Path) -> None:
    with running_broker(tmp_path, *NO_WORLD, "--allow-anonymous", "--http", "0") as broker:
        links = []
        for _ in range(64):
            link = socket.create_connection(("127.0.0.1", broker.ports["http"]), 30)
            link.sendall(b"GET /health HTTP/1.1\r\n")
            links.append(link)
        assert broker.health()["status"] == "ok"
        assert broker.metric('spaps_http_displaced_total{cause="address"}') >= 48
        for link in links:
            link.close()


def refusal(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*COMMAND, *NO_WORLD, "--listen", "127.0.0.1:0", *arguments],
        capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=folder,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    return done.stderr


def test_a_public_address_without_a_login_is_refused(tmp_path: Path) -> None:
    assert "broker.http at 0.0.0.0:0 can be reached" in refusal(tmp_path, "--http", "0.0.0.0:0")
    (tmp_path / "mine.toml").write_text('[broker]\nhttp_users = ["monitor"]\n')
    said = refusal(tmp_path, "--http", "127.0.0.1:0", "--config", "mine.toml")
    assert "broker.http_users: needs broker.password_file" in said


def test_a_public_address_with_a_login(tmp_path: Path) -> None:
    hashed = hash_password("secret")
    (tmp_path / "users").write_text(f"monitor:{hashed}\nmeter:{hashed}\n")
    config = f'[broker]\npassword_file = "{tmp_path}/users"\nhttp_users = ["monitor"]\n'
    with running_broker(tmp_path, *NO_WORLD, "--http", "0.0.0.0:0", config=config) as broker:
        url = f"http://127.0.0.1:{broker.ports['http']}/metrics"
        assert read_page(url, ("monitor", "secret"))["spaps_connections"] == 0
        for login in (None, ("monitor", "wrong"), ("meter", "secret"), ("", "")):
            with pytest.raises(NotConnectedError, match="Unauthorized"):
                read_page(url, login)
        for header in ("Basic", "Basic !", "Bearer x", "Basic " + base64.b64encode(b"x").decode()):
            with pytest.raises(HTTPError) as caught:
                urlopen(Request(url, headers={"Authorization": header}), timeout=PATIENCE)
            assert caught.value.code == 401
