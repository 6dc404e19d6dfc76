"""The connection of a client: paho, its callbacks, and the thread they run on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import paho.mqtt.client as paho
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from spaps.client.answers import Answers, read_answer
from spaps.client.errors import (
    AnswerTimeoutError,
    ClientError,
    ClientUseError,
    ConnectRefusedError,
    NotConnectedError,
    NoticeError,
    RefusedError,
)
from spaps.client.message import Message, packet_properties, read_message
from spaps.client.notices import NeighborhoodChange, changes_from_json
from spaps.client.options import ConnectionOptions, default_port, paho_client
from spaps.client.protocol import CHANGES_TOPIC
from spaps.client.publication import Publication, PublishRefusals

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS: Final = 60

OnMessage: TypeAlias = Callable[[Message], object]
OnProblem: TypeAlias = Callable[[ClientError], object]
OnNeighborhoodChange: TypeAlias = Callable[[NeighborhoodChange], object]


class ClientLink:
    """paho with answers that can be waited for. ``on_new_session`` is called on its thread."""

    def __init__(
        self,
        host: str,
        port: int | None,
        options: ConnectionOptions,
        on_message: OnMessage | None,
        on_problem: OnProblem | None,
        on_change: OnNeighborhoodChange | None = None,
    ) -> None:
        self._host = host
        self._port = default_port(options) if port is None else port
        self._options = options
        self._on_message = on_message
        self._on_problem = on_problem
        self._on_change = on_change
        self.on_new_session: Callable[[], None] = lambda: None
        self.answers = Answers()
        self._refusals = PublishRefusals()
        self._network_thread: int | None = None
        self._answered = threading.Event()
        self._refused: RefusedError | None = None
        self._paho = paho_client(options)
        self._paho.on_connect = self._connected
        self._paho.on_disconnect = self._disconnected
        self._paho.on_message = self._message
        self._paho.on_subscribe = self._acknowledged
        self._paho.on_unsubscribe = self._acknowledged
        self._paho.on_publish = self._published

    @property
    def is_connected(self) -> bool:
        """Whether the broker has let us in and the connection stands."""
        return self._paho.is_connected()

    def connect(self, timeout: float) -> None:
        """Connect and wait for the broker's word; a refusal is not tried again."""
        where = f"{self._host}:{self._port}"
        self._answered.clear()
        self._refused = None
        expiry = self._options.get("session_expiry", 0)
        try:
            self._paho.connect(
                self._host,
                self._port,
                self._options.get("keep_alive", KEEP_ALIVE_SECONDS),
                # Only the first time: a session that a lost connection left is taken up.
                clean_start=(
                    paho.MQTT_CLEAN_START_FIRST_ONLY
                    if self._options.get("clean_start", True)
                    else False
                ),
                properties=packet_properties(PacketTypes.CONNECT, (), SessionExpiryInterval=expiry),
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise NotConnectedError(f"no connection to {where}: {reason}") from error
        self._paho.loop_start()
        if not self._answered.wait(timeout):
            self.close()
            raise AnswerTimeoutError(f"{where}: no answer to CONNECT within {timeout:g} s")
        if self._refused is not None:
            self.close()
            raise self._refused

    def close(self) -> None:
        """Disconnect and end the thread."""
        self._paho.disconnect()
        if threading.get_ident() != self._network_thread:
            self._paho.loop_stop()

    def check_may_wait(self) -> None:
        """Refuse to wait where waiting would never end."""
        if threading.get_ident() == self._network_thread:
            raise ClientUseError("on_message cannot wait for the broker: it would wait for itself")

    def subscribe(
        self, topic: str, options: SubscribeOptions, properties: Properties
    ) -> tuple[MQTTErrorCode, int | None]:
        """Send SUBSCRIBE."""
        try:
            return self._paho.subscribe(topic, options=options, properties=properties)
        except ValueError as error:
            raise ClientUseError(f"{topic[:80]!r}: {error}") from error

    def unsubscribe(self, topic: str, properties: Properties) -> tuple[MQTTErrorCode, int | None]:
        """Send UNSUBSCRIBE."""
        try:
            return self._paho.unsubscribe(topic, properties=properties)
        except ValueError as error:
            raise ClientUseError(f"{topic[:80]!r}: {error}") from error

    def publish(
        self,
        topic: str,
        payload: bytes | bytearray | str | float | None,
        qos: int,
        *,
        retain: bool,
        properties: Properties,
    ) -> Publication:
        """Send PUBLISH, or keep it until it can be sent."""
        try:
            info = self._paho.publish(topic, payload, qos, retain, properties)
        except (ValueError, TypeError) as error:
            raise ClientUseError(f"message to {topic[:80]!r}: {error}") from error
        if info.rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
            raise ClientError("too many messages wait to be sent")
        if qos == 0 and info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise NotConnectedError("not connected to the broker")
        return Publication(info, self._refusals, self.check_may_wait)

    def report(self, problem: ClientError) -> None:
        """An error that no caller waits for."""
        if self._on_problem is None:
            log.warning("%s", problem)
        else:
            self._on_problem(problem)

    # What follows is called by paho, on its thread.

    def _connected(
        self,
        _client: paho.Client,
        _data: Any,
        flags: paho.ConnectFlags,
        code: ReasonCode,
        properties: Properties | None,
    ) -> None:
        self._network_thread = threading.get_ident()
        if code.is_failure:
            reason = getattr(properties, "ReasonString", None)
            self._refused = ConnectRefusedError("connect", code.value, str(code), reason)
            if self._answered.is_set():
                self.report(self._refused)
        elif not flags.session_present:
            self.on_new_session()
        self._answered.set()

    def _disconnected(self, *_arguments: Any) -> None:
        self.answers.lose_all()

    def _acknowledged(
        self,
        _client: paho.Client,
        _data: Any,
        number: int,
        codes: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        self.answers.arrived(number, read_answer(codes, properties))

    def _published(
        self,
        _client: paho.Client,
        _data: Any,
        number: int,
        code: ReasonCode,
        properties: Properties | None,
    ) -> None:
        refusal = self._refusals.answered(number, code, properties)
        if refusal is not None:
            self.report(refusal)

    def _message(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        if self._on_change is not None and message.topic == CHANGES_TOPIC:
            self._changed(self._on_change, message.payload)
        elif self._on_message is not None:
            self._call(self._on_message, read_message(message), "on_message")

    def _changed(self, on_change: OnNeighborhoodChange, payload: bytes) -> None:
        try:
            changes = changes_from_json(payload)
        except NoticeError as error:
            self.report(error)
            return
        for change in changes:
            self._call(on_change, change, "on_neighborhood_change")

    def _call(self, action: Callable[[Any], object], argument: object, name: str) -> None:
        try:
            action(argument)
        except Exception as error:
            # It must not end the network thread, and with it every later message.
            log.exception("%s failed", name)
            self.report(ClientError(f"{name} failed: {type(error).__name__}: {error}"))
