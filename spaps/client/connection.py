"""The connection of a client: paho, its callbacks, and the thread that they run on."""

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

from spaps.client.answers import AnswerFuture, Answers, Publication, PublishRefusals, read_answer
from spaps.client.errors import (
    AnswerTimeoutError,
    ClientError,
    ClientUseError,
    ConnectRefusedError,
    NotConnectedError,
    NoticeError,
    RefusedError,
    connect_error,
)
from spaps.client.message import (
    CHANGES_TOPIC,
    Message,
    NeighborhoodChange,
    changes_from_json,
    packet_properties,
    read_message,
)
from spaps.client.options import ConnectionOptions, default_port, paho_client

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS: Final = 60
NO_FILTER: Final = "is no topic filter: + and # stand alone in a level, and # is the last level"

OnMessage: TypeAlias = Callable[[Message], object]
OnProblem: TypeAlias = Callable[[ClientError], object]
OnNeighborhoodChange: TypeAlias = Callable[[NeighborhoodChange], object]
Payload: TypeAlias = bytes | bytearray | str | float | None


class ClientConnection:
    """A paho client with answers that a caller can wait for.

    All callbacks run on the network thread. With ``on_lost`` the connection ends when it is lost
    or closed, and that is called; without it paho connects again. ``on_new_session`` is called
    after a CONNACK when the broker has no session of this client.
    """

    def __init__(
        self,
        host: str,
        port: int | None,
        options: ConnectionOptions,
        *,
        on_message: OnMessage | None,
        on_problem: OnProblem | None = None,
        on_change: OnNeighborhoodChange | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        self._address = (host, default_port(options) if port is None else port)
        self._options = options
        self._on_message = on_message
        self._on_problem = on_problem
        self._on_change = on_change
        self._on_lost = on_lost
        self.on_new_session: Callable[[], None] = lambda: None
        self.answers = Answers()
        self._publish_answers = Answers()
        self._refusals = PublishRefusals()
        self._network_thread: int | None = None
        self._answered = threading.Event()
        self._refused: RefusedError | None = None
        self._is_closed = False
        self._paho = paho_client(options, reconnects=on_lost is None)
        self._paho.on_connect = self._connected
        self._paho.on_disconnect = self._disconnected
        self._paho.on_message = self._message
        self._paho.on_subscribe = self._acknowledged
        self._paho.on_unsubscribe = self._acknowledged
        self._paho.on_publish = self._published

    @property
    def is_connected(self) -> bool:
        """Whether the broker has accepted this client and the connection stands."""
        return self._paho.is_connected()

    def connect(self, timeout: float) -> None:
        """Connect and wait for CONNACK; a refusal is not tried again."""
        where = "{}:{}".format(*self._address)
        self._answered.clear()
        self._refused = None
        self._is_closed = False
        expiry = self._options.get("session_expiry", 0)
        is_clean = self._options.get("clean_start", True)
        try:
            self._paho.connect(
                *self._address,
                self._options.get("keep_alive", KEEP_ALIVE_SECONDS),
                # Only the first time: a session that a lost connection left is resumed.
                clean_start=paho.MQTT_CLEAN_START_FIRST_ONLY if is_clean else False,
                properties=packet_properties(PacketTypes.CONNECT, (), SessionExpiryInterval=expiry),
            )
        except (OSError, ValueError) as error:
            raise connect_error(where, error) from error
        self._paho.loop_start()
        if not self._answered.wait(timeout):
            self.close()
            raise AnswerTimeoutError(f"{where}: no answer to CONNECT within {timeout:g} s")
        if self._refused is not None or self._is_closed:
            self.close()
            raise self._refused or NotConnectedError(f"{where}: closed while it was connecting")

    def close(self) -> None:
        """Disconnect and end the network thread; ends a ``connect`` in another thread too."""
        self._is_closed = True
        self._answered.set()
        self._paho.disconnect()
        if threading.get_ident() != self._network_thread:
            self._paho.loop_stop()

    def check_may_wait(self) -> None:
        """Raise an error on the network thread, where a wait for an answer would never end."""
        if threading.get_ident() == self._network_thread:
            raise ClientUseError("on_message cannot wait for the broker: it would wait for itself")

    def subscribe(
        self, topic: str, qos: int, user_properties: list[tuple[str, str]]
    ) -> tuple[MQTTErrorCode, int | None]:
        """Send SUBSCRIBE; return paho's error code and the packet identifier."""
        properties = packet_properties(PacketTypes.SUBSCRIBE, user_properties)
        options = SubscribeOptions(qos=qos)
        try:
            return self._paho.subscribe(topic, options=options, properties=properties)
        except ValueError as error:
            raise ClientUseError(f"{topic[:80]!r} {NO_FILTER}") from error

    def unsubscribe(
        self, topic: str, user_properties: list[tuple[str, str]]
    ) -> tuple[MQTTErrorCode, int | None]:
        """Send UNSUBSCRIBE; return paho's error code and the packet identifier."""
        properties = packet_properties(PacketTypes.UNSUBSCRIBE, user_properties)
        try:
            return self._paho.unsubscribe(topic, properties=properties)
        except ValueError as error:
            raise ClientUseError(f"{topic[:80]!r} {NO_FILTER}") from error

    def publish(
        self, topic: str, payload: Payload, qos: int, *, retain: bool, properties: Properties
    ) -> Publication:
        """Send PUBLISH. While the connection is away, QoS 1 and 2 wait and QoS 0 is an error."""
        info = self._send_publish(topic, payload, qos, retain=retain, properties=properties)
        if qos == 0 and info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise NotConnectedError("not connected to the broker")
        return Publication(info, self._refusals, self.check_may_wait)

    def publish_and_ask(
        self, topic: str, payload: Payload, qos: int, *, retain: bool, properties: Properties
    ) -> AnswerFuture:
        """Send PUBLISH with QoS 1 or 2; return a future for the broker's answer."""

        def send() -> tuple[MQTTErrorCode, int | None]:
            info = self._send_publish(topic, payload, qos, retain=retain, properties=properties)
            return info.rc, info.mid

        return self._publish_answers.ask(send)

    def _send_publish(
        self, topic: str, payload: Payload, qos: int, *, retain: bool, properties: Properties
    ) -> paho.MQTTMessageInfo:
        try:
            info = self._paho.publish(topic, payload, qos, retain, properties)
        except (ValueError, TypeError) as error:
            raise ClientUseError(f"message to {topic[:80]!r}: {error}") from error
        if info.rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
            raise ClientError("too many messages wait to be sent")
        return info

    def report(self, problem: ClientError) -> None:
        """Report an error that no caller waits for: to ``on_problem``, or to the log."""
        if self._on_problem is None:
            log.warning("%s", problem)
        else:
            self._on_problem(problem)

    # What follows is called by paho, on its thread.

    def _connected(
        self, _client: Any, _data: Any, flags: paho.ConnectFlags, code: ReasonCode,
        properties: Properties | None,
    ) -> None:  # fmt: skip
        self._network_thread = threading.get_ident()
        refusal = read_answer(code, properties).refusal(ConnectRefusedError, "connect")
        if refusal is not None:
            self._refused = refusal
            if self._answered.is_set():
                self.report(refusal)
        elif not flags.session_present:
            self.on_new_session()
        self._answered.set()

    def _disconnected(self, *_arguments: Any) -> None:
        self.answers.lose_all()
        if self._on_lost is not None:
            self._publish_answers.lose_all()
            self._on_lost()

    def _acknowledged(
        self, _client: Any, _data: Any, number: int, codes: list[ReasonCode],
        properties: Properties | None,
    ) -> None:  # fmt: skip
        # Each of our packets has one topic filter.
        self.answers.arrived(number, read_answer(codes[0], properties))

    def _published(
        self, _client: Any, _data: Any, number: int, code: ReasonCode, properties: Properties | None
    ) -> None:
        answer = read_answer(code, properties)
        refusal = self._refusals.answered(number, answer)
        if refusal is not None:
            self.report(refusal)
        self._publish_answers.arrived(number, answer)

    def _message(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        if self._on_change is None or message.topic != CHANGES_TOPIC:
            if self._on_message is not None:
                self._call(self._on_message, read_message(message), "on_message")
            return
        try:
            changes = changes_from_json(message.payload)
        except NoticeError as error:
            self.report(error)
            return
        for change in changes:
            self._call(self._on_change, change, "on_neighborhood_change")

    def _call(self, action: Callable[[Any], object], argument: object, name: str) -> None:
        try:
            action(argument)
        except Exception as error:
            # It must not end the network thread, and with it every later message.
            log.exception("%s failed", name)
            self.report(ClientError(f"{name} failed: {type(error).__name__}: {error}"))
