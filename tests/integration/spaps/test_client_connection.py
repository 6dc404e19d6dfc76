"""The client library's connection: coming back, sessions, logins, TLS, WebSocket."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from queue import Queue

import pytest

from broker.access.passwords import hash_password, write_users
from spaps import AsyncSpatialClient, Message, SpatialClient
from spaps.client.errors import (
    AnswerTimeoutError,
    ClientError,
    ClientUseError,
    ConnectRefusedError,
    NotConnectedError,
    SubscribeRefusedError,
)
from tests.scenes.surroundings import Surroundings
from tests.servers.certificates import Certificates
from tests.servers.running_broker import PATIENCE, RunningBroker, running_broker, until


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def test_a_broker_that_forgot_everything_is_asked_again_with_the_same_nsids(
    tmp_path: Path, city: Path, surroundings: Surroundings
) -> None:
    inbox: Queue[Message] = Queue()
    arguments = ("--world", str(city), "--allow-anonymous")
    listen = ("--listen", f"127.0.0.1:{free_port()}")
    with running_broker(tmp_path / "first", *arguments, *listen) as broker:
        port = broker.port
        client = SpatialClient("127.0.0.1", port, on_message=inbox.put).connect()
        assert client.subscribe("roads", surroundings.descriptor, nsid=41, qos=1) == 41
        assigned = client.subscribe("roads", surroundings.descriptor)
        client.subscribe_topic("all", qos=1)
        given_back = client.subscribe("roads", surroundings.descriptor)
        client.unsubscribe(given_back)
    until(lambda: not client.is_connected, "the lost connection")
    with pytest.raises(NotConnectedError):
        client.subscribe_topic("meanwhile")
    waiting = client.publish("elsewhere", "sent when it is back", qos=1)
    assert not waiting.is_done
    with running_broker(tmp_path / "second", *arguments, *listen):
        waiting.wait(PATIENCE)
        with SpatialClient("127.0.0.1", port) as publisher:

            def arrives() -> bool:
                publisher.publish("all", "plain")
                publisher.publish("roads", "spatial", peid=surroundings.inside)
                client.publish("own", qos=1).wait()
                return any(set(one.nsids) == {41, assigned} for one in list(inbox.queue))

            until(arrives, "both neighborhoods")
            assert {one.payload for one in list(inbox.queue)} == {b"plain", b"spatial"}
        assert set(client.nsids) == {41, assigned}
        client.close()


def test_a_neighborhood_that_is_refused_after_the_reconnect_is_reported(
    tmp_path: Path, city: Path, surroundings: Surroundings
) -> None:
    problems: Queue[ClientError] = Queue()
    listen = ("--allow-anonymous", "--listen", f"127.0.0.1:{free_port()}")
    with running_broker(tmp_path / "first", "--world", str(city), *listen) as broker:
        client = SpatialClient("127.0.0.1", broker.port, on_problem=problems.put).connect()
        nsid = client.subscribe("roads", surroundings.descriptor)
    with running_broker(tmp_path / "second", "--memberships", "none", *listen):
        problem = problems.get(timeout=PATIENCE)
        assert isinstance(problem, SubscribeRefusedError)
        assert f"nsid {nsid}" in str(problem)
        assert client.nsids == (nsid,)
        client.close()


def test_a_session_that_outlives_the_process(
    open_broker: RunningBroker, surroundings: Surroundings
) -> None:
    inbox: Queue[Message] = Queue()
    options = {"client_id": "comes back", "session_expiry": 60}
    with SpatialClient("127.0.0.1", open_broker.port, **options) as first:
        first.subscribe("kept", surroundings.descriptor, nsid=3, qos=1)
    with SpatialClient("127.0.0.1", open_broker.port) as publisher:
        publisher.publish("kept", "while away", peid=surroundings.inside, qos=1).wait()
    with SpatialClient(
        "127.0.0.1", open_broker.port, on_message=inbox.put, clean_start=False, **options
    ) as second:
        message = inbox.get(timeout=PATIENCE)
        assert (message.payload, message.nsids) == (b"while away", (3,))
        second.unsubscribe(3, topic="kept")
        second.publish("kept", "never", peid=surroundings.inside, qos=1).wait()
        second.subscribe_topic("last")
        second.publish("last", "last").wait()
        assert inbox.get(timeout=PATIENCE).payload == b"last"


def test_login(tmp_path: Path) -> None:
    write_users(tmp_path / "users", {"alice": hash_password("rabbit")})
    config = f'[broker]\npassword_file = "{tmp_path / "users"}"\n'
    with running_broker(tmp_path / "broker", "--memberships", "none", config=config) as broker:
        with SpatialClient("127.0.0.1", broker.port, user="alice", password="rabbit") as client:  # noqa: S106
            assert client.is_connected
        for wrong in ({}, {"user": "alice", "password": "hare"}):
            with pytest.raises(ConnectRefusedError) as refused:
                SpatialClient("127.0.0.1", broker.port, **wrong).connect()
            assert refused.value.reason_code in (0x86, 0x87)


def test_tls_with_certificates_of_both_sides(tmp_path: Path, certificates: Certificates) -> None:
    config = f"""
    [broker.listeners.tls]
    type = "tcp"
    bind = "127.0.0.1:0"
    ssl = true
    certfile = "{certificates.server}"
    keyfile = "{certificates.server_key}"
    cafile = "{certificates.authority}"
    """
    arguments = ("--memberships", "none", "--allow-anonymous")
    with running_broker(tmp_path, *arguments, config=config) as broker:
        port = broker.ports["tls"]
        with SpatialClient(
            "127.0.0.1",
            port,
            cafile=certificates.authority,
            certfile=certificates.client,
            keyfile=certificates.client_key,
        ) as client:
            client.publish("a", qos=1).wait()
        # Nobody else vouches for this broker.
        with pytest.raises(NotConnectedError, match="certificate"):
            SpatialClient("127.0.0.1", port, tls=True).connect()
    with pytest.raises(ClientUseError, match=r"absent\.pem"):
        SpatialClient("127.0.0.1", cafile=tmp_path / "absent.pem")


def test_websocket(open_broker: RunningBroker, surroundings: Surroundings) -> None:
    inbox: Queue[Message] = Queue()
    port = open_broker.ports["web"]
    with SpatialClient(
        "127.0.0.1", port, transport="websockets", websocket_path="/", on_message=inbox.put
    ) as client:
        nsid = client.subscribe("web", surroundings.descriptor)
        client.publish("web", peid=surroundings.inside)
        assert inbox.get(timeout=PATIENCE).nsids == (nsid,)


def test_a_server_that_accepts_and_says_nothing() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(AnswerTimeoutError, match="CONNECT"),
    ):
        SpatialClient("127.0.0.1", silent.getsockname()[1]).connect(timeout=0.2)


def test_options_that_contradict() -> None:
    with pytest.raises(ClientUseError, match="client_id"):
        SpatialClient(clean_start=False)
    with pytest.raises(ClientUseError, match="user"):
        SpatialClient(password="lonely")  # noqa: S106
    unknown = {"username": "me"}
    for kind in (SpatialClient, AsyncSpatialClient):
        with pytest.raises(ClientUseError, match="unknown option 'username'; allowed: client_id"):
            kind(**unknown)


def test_the_client_needs_paho_and_nothing_else() -> None:
    """Everything else that an install may have is hidden, and the package itself stays light."""
    program = """
import sys
import spaps
assert "paho" not in sys.modules
for name in ("numpy", "shapely", "pyarrow", "typer", "rich", "deltalake", "redis", "mqtt5",
             "amqtt", "uvloop", "pyspark", "aiomqtt"):
    sys.modules[name] = None
from spaps import AsyncSpatialClient, SpatialClient
SpatialClient("127.0.0.1")
AsyncSpatialClient("127.0.0.1")
ours = {"schemas", "spatial_udfs", "world", "redis_link", "rebuild", "jobs", "broker", "conf"}
assert not ours & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)
