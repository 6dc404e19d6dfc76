"""Options of a connection to the broker: login, TLS, WebSocket, session."""

from __future__ import annotations

import ssl
from os import PathLike
from typing import Final, Literal, TypedDict

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from spaps.client.errors import ClientUseError

MQTT_PORT: Final = 1883
MQTT_TLS_PORT: Final = 8883
# Seconds between attempts to connect again: doubled from the first to the last.
RECONNECT_SECONDS: Final = (1, 30)


class ConnectionOptions(TypedDict, total=False):
    """The options of a connection beside host and port.

    ``tls`` is True for the system's certificate authorities, or an SSL context of your own.
    ``cafile`` (authorities to trust) and ``certfile`` with ``keyfile`` (the certificate of this
    client) switch TLS on too. ``insecure`` accepts any name in the broker's certificate.

    ``session_expiry`` is how many seconds the broker keeps the session, and queues QoS 1 and 2
    messages, after the connection is lost. ``clean_start=False`` resumes a session that an earlier
    process with this ``client_id`` left.
    """

    client_id: str
    user: str | None
    password: str | None
    transport: Literal["tcp", "websockets"]
    websocket_path: str
    tls: bool | ssl.SSLContext
    cafile: str | PathLike[str] | None
    certfile: str | PathLike[str] | None
    keyfile: str | PathLike[str] | None
    insecure: bool
    keep_alive: int
    session_expiry: int
    clean_start: bool


def paho_client(options: ConnectionOptions, *, reconnects: bool = True) -> paho.Client:
    """Return a paho client with these options, not connected."""
    allowed = ConnectionOptions.__annotations__
    unknown = next((name for name in options if name not in allowed), None)
    if unknown is not None:
        raise ClientUseError(f"unknown option {unknown!r}; allowed: {', '.join(allowed)}")
    client = paho.Client(
        CallbackAPIVersion.VERSION2,
        options.get("client_id", ""),
        protocol=paho.MQTTv5,
        transport=options.get("transport", "tcp"),
        reconnect_on_failure=reconnects,
    )
    user, password = options.get("user"), options.get("password")
    if user is None and password is not None:
        raise ClientUseError("a password without a user")
    if not options.get("clean_start", True) and not options.get("client_id"):
        raise ClientUseError("clean_start=False needs the client_id of the session to resume")
    client.username_pw_set(user, password)
    if client.transport == "websockets":
        client.ws_set_options(path=options.get("websocket_path", "/mqtt"))
    if uses_tls(options):
        client.tls_set_context(_tls_context(options))
    client.reconnect_delay_set(*RECONNECT_SECONDS)
    return client


def uses_tls(options: ConnectionOptions) -> bool:
    """Return whether the connection is encrypted."""
    return bool(options.get("tls") or options.get("cafile") or options.get("certfile"))


def default_port(options: ConnectionOptions) -> int:
    """Return the port to use when none is given."""
    return MQTT_TLS_PORT if uses_tls(options) else MQTT_PORT


def _tls_context(options: ConnectionOptions) -> ssl.SSLContext:
    given = options.get("tls")
    try:
        context = (
            given
            if isinstance(given, ssl.SSLContext)
            else ssl.create_default_context(cafile=options.get("cafile"))
        )
        certfile = options.get("certfile")
        if certfile is not None:
            context.load_cert_chain(certfile, options.get("keyfile"))
    except OSError as error:  # ssl.SSLError is one
        files = [str(options[key]) for key in ("cafile", "certfile", "keyfile") if options.get(key)]
        raise ClientUseError(f"TLS with {', '.join(files)}: {error.strerror or error}") from error
    if options.get("insecure"):
        context.check_hostname = False
    return context
