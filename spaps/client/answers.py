"""Answers of the broker to packets of this client, and how a caller waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeAlias

from paho.mqtt.client import MQTTMessageInfo
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from spaps.client.errors import (
    AnswerTimeoutError,
    NotConnectedError,
    PublishRefusedError,
    RefusedError,
)
from spaps.client.message import user_pairs

# Refusals that nobody has asked for are kept for this many messages, then forgotten.
KEPT_REFUSALS: Final = 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """What the broker answered to one packet: reason code, reason string, user properties."""

    code: ReasonCode
    reason: str | None
    user_properties: tuple[tuple[str, str], ...]

    def refusal(self, kind: type[RefusedError], what: str) -> RefusedError | None:
        """Return the error for a failure code, None for success."""
        if not self.code.is_failure:
            return None
        return kind(what, self.code.value, str(self.code), self.reason)


AnswerFuture: TypeAlias = Future[Answer]
IfLate: TypeAlias = Callable[[Answer], None]
Send: TypeAlias = Callable[[], tuple[MQTTErrorCode, int | None]]


def read_answer(code: ReasonCode, properties: Properties | None) -> Answer:
    """Return an answer out of the parts that paho gives."""
    reason = getattr(properties, "ReasonString", None)
    return Answer(code, reason, tuple(user_pairs(properties)))


class Answers:
    """Packets that wait for an answer, by packet identifier.

    Any thread may ask. The network thread brings the answers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[AnswerFuture, IfLate | None]] = {}
        # Calls of ``ask`` that send now, and answers that came before such a call returned.
        self._sending = 0
        self._early: dict[int, Answer] = {}
        self._losses = 0

    def ask(self, send: Send, if_late: IfLate | None = None) -> AnswerFuture:
        """Send a packet and return a future for its answer.

        ``if_late`` is called instead when the answer comes after the future was cancelled.
        """
        future: AnswerFuture = Future()
        with self._lock:
            self._sending += 1
            losses = self._losses
        # Without the lock: paho sends under a lock of its own, which the network thread holds
        # while it brings an answer.
        sent = None
        try:
            error, number = send()
            if error is MQTTErrorCode.MQTT_ERR_SUCCESS:
                sent = number
        finally:
            with self._lock:
                early = None if sent is None else self._early.pop(sent, None)
                is_lost = self._losses != losses
                if sent is not None and early is None and not is_lost:
                    self._waiting[sent] = (future, if_late)
                self._sending -= 1
                if not self._sending:
                    self._early.clear()
        if sent is None:
            raise NotConnectedError("not connected to the broker")
        if early is not None:
            future.set_result(early)
        elif is_lost:
            future.set_exception(_lost())
        return future

    def arrived(self, number: int, answer: Answer) -> None:
        """Give an answer to the caller that waits for it."""
        with self._lock:
            future, if_late = self._waiting.pop(number, (None, None))
            if future is None and self._sending:
                self._early[number] = answer
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(answer)
        elif if_late is not None:
            if_late(answer)

    def lose_all(self) -> None:
        """Fail all waiting futures, because the connection is lost."""
        with self._lock:
            self._losses += 1
            lost = [future for future, _ in self._waiting.values()]
            self._waiting.clear()
        for future in lost:
            if future.set_running_or_notify_cancel():
                future.set_exception(_lost())


def _lost() -> NotConnectedError:
    return NotConnectedError("the connection was lost before an answer")


def wait_for(future: AnswerFuture, what: str, timeout: float) -> Answer:
    """Return the answer; after ``timeout`` seconds cancel the future and raise an error."""
    try:
        return future.result(timeout)
    except TimeoutError:
        if future.cancel():
            raise AnswerTimeoutError(f"{what}: no answer within {timeout:g} s") from None
        return future.result()  # the answer came at the last moment


class PublishRefusals:
    """Messages that the broker refused, by packet identifier."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refusals: dict[int, PublishRefusedError] = {}

    def answered(self, number: int, answer: Answer) -> RefusedError | None:
        """Note the answer to a message and return its refusal, if it is one.

        It replaces what an earlier message with the same packet identifier got.
        """
        refusal = answer.refusal(PublishRefusedError, "message")
        with self._lock:
            self._refusals.pop(number, None)
            if isinstance(refusal, PublishRefusedError):
                self._refusals[number] = refusal
            while len(self._refusals) > KEPT_REFUSALS:
                del self._refusals[next(iter(self._refusals))]
        return refusal

    def take(self, number: int) -> PublishRefusedError | None:
        """Return the refusal of an answered message, once."""
        with self._lock:
            return self._refusals.pop(number, None)


class Publication:
    """A message that was handed over to be sent."""

    def __init__(
        self, info: MQTTMessageInfo, refusals: PublishRefusals, check_may_wait: Callable[[], None]
    ) -> None:
        self._info = info
        self._refusals = refusals
        self._check_may_wait = check_may_wait

    @property
    def is_done(self) -> bool:
        """Whether the broker has answered (QoS 1 and 2), or the message has left (QoS 0)."""
        return self._info.rc == MQTTErrorCode.MQTT_ERR_SUCCESS and self._info.is_published()

    def wait(self, timeout: float = 10.0) -> None:
        """Wait until the broker has the message; raise PublishRefusedError if it refuses it."""
        self._check_may_wait()
        # paho raises at once when the connection is away, although QoS 1 and 2 are sent later.
        self._info.rc = MQTTErrorCode.MQTT_ERR_SUCCESS
        self._info.wait_for_publish(timeout)
        if self._info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise NotConnectedError("the connection was lost before the message had left")
        if not self._info.is_published():
            raise AnswerTimeoutError(f"message: no answer within {timeout:g} s")
        refusal = self._refusals.take(self._info.mid)
        if refusal is not None:
            raise refusal
