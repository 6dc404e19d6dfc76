"""A message on its way to the broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from paho.mqtt.client import MQTTMessageInfo
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from spaps.client.errors import AnswerTimeoutError, NotConnectedError, PublishRefusedError

# Refusals that nobody has asked for are kept for this many messages, then forgotten.
KEPT_REFUSALS: Final = 1000


class PublishRefusals:
    """What the broker refused, by the numbers of the messages."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refusals: dict[int, PublishRefusedError] = {}

    def answered(
        self, number: int, code: ReasonCode, properties: Properties | None
    ) -> PublishRefusedError | None:
        """The broker's word on a message; it also ends what an earlier one of its number was."""
        with self._lock:
            self._refusals.pop(number, None)
            if not code.is_failure:
                return None
            reason = getattr(properties, "ReasonString", None)
            refusal = PublishRefusedError("message", code.value, str(code), reason)
            self._refusals[number] = refusal
            while len(self._refusals) > KEPT_REFUSALS:
                del self._refusals[next(iter(self._refusals))]
            return refusal

    def take(self, number: int) -> PublishRefusedError | None:
        """The refusal of a message that the broker has answered."""
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
        """Until the broker has it; PublishRefusedError with its reason if it does not take it."""
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
