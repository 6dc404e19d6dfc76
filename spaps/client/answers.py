"""Answers of the broker, each waited for under the number of the packet that asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeAlias

from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from spaps.client.errors import AnswerTimeoutError, NotConnectedError, RefusedError
from spaps.client.message import user_pairs


@dataclass(frozen=True, slots=True)
class Answer:
    """What a SUBACK or UNSUBACK to one filter says."""

    code: ReasonCode
    reason: str | None
    user_properties: tuple[tuple[str, str], ...]

    def refusal(self, kind: type[RefusedError], what: str) -> RefusedError | None:
        """The error that this answer stands for, None when it is a yes."""
        if not self.code.is_failure:
            return None
        return kind(what, self.code.value, str(self.code), self.reason)


AnswerFuture: TypeAlias = Future[Answer]
IfLate: TypeAlias = Callable[[Answer], None]
Send: TypeAlias = Callable[[], tuple[MQTTErrorCode, int | None]]


def read_answer(codes: list[ReasonCode], properties: Properties | None) -> Answer:
    """The answer to the one filter that each of our packets has."""
    reason = getattr(properties, "ReasonString", None)
    return Answer(codes[0], reason, tuple(user_pairs(properties)))


class Answers:
    """Packets that wait for an answer. One thread asks, the network thread answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[AnswerFuture, IfLate | None]] = {}

    def ask(self, send: Send, if_late: IfLate | None = None) -> AnswerFuture:
        """Send a packet; ``if_late`` gets an answer that nobody waits for any more.

        Locked, because the answer can be here before ``send`` returns.
        """
        future: AnswerFuture = Future()
        with self._lock:
            error, number = send()
            if error is not MQTTErrorCode.MQTT_ERR_SUCCESS or number is None:
                raise NotConnectedError("not connected to the broker")
            self._waiting[number] = (future, if_late)
        return future

    def arrived(self, number: int, answer: Answer) -> None:
        """Hand an answer over."""
        with self._lock:
            future, if_late = self._waiting.pop(number, (None, None))
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(answer)
        elif if_late is not None:
            if_late(answer)

    def lose_all(self) -> None:
        """The connection is gone: no answer comes to what was asked on it."""
        with self._lock:
            lost = [future for future, _ in self._waiting.values()]
            self._waiting.clear()
        for future in lost:
            if future.set_running_or_notify_cancel():
                future.set_exception(NotConnectedError("the connection was lost before an answer"))


def wait_for(future: AnswerFuture, what: str, timeout: float) -> Answer:
    """The answer, or AnswerTimeoutError; after that nobody waits for it any more."""
    try:
        return future.result(timeout)
    except TimeoutError:
        if future.cancel():
            raise AnswerTimeoutError(f"{what}: no answer within {timeout:g} s") from None
        return future.result()  # it came in this very moment
