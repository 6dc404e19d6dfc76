"""The subscriptions of a client: how they are asked for, held, ended and restored."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

from paho.mqtt.enums import MQTTErrorCode

from spaps.client.answers import Answer, AnswerFuture
from spaps.client.connection import ClientConnection
from spaps.client.errors import ClientUseError, NotConnectedError, UnsubscribeRefusedError
from spaps.client.message import numbers_of
from spaps.client.protocol import NSID, WARNING
from spaps.client.subscription_request import Request, refusal_of


class Subscriptions:
    """What the broker has granted to this client and the caller has not ended.

    A caller asks, waits for the answer in its own way, and hands it to ``grant`` or ``end``.
    When the broker has a new session for this client, all of it is asked for again.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._neighborhoods: dict[int, Request] = {}
        self._warnings: dict[int, tuple[str, ...]] = {}
        self._plain: dict[str, Request] = {}
        connection.on_new_session = self._restore

    def ask(self, request: Request) -> AnswerFuture:
        """Send SUBSCRIBE. If the caller stops waiting, a late grant is undone."""
        return self._connection.answers.ask(
            partial(self._send, request), partial(self._undo, request)
        )

    def grant(self, request: Request, answer: Answer) -> Request:
        """Hold a granted subscription and return it with its nsid; raise when it was refused.

        An nsid that is used again stands for the new subscription alone.
        """
        refusal = refusal_of(request, answer)
        if refusal is not None:
            raise refusal
        granted = _with_nsid(request, answer)
        with self._lock:
            if granted.nsid is None:
                self._plain[granted.topic] = granted
            else:
                pairs = answer.user_properties
                self._neighborhoods[granted.nsid] = granted
                self._warnings[granted.nsid] = tuple(
                    text for name, text in pairs if name == WARNING
                )
        return granted

    def ask_end(self, topic: str, nsid: int | None) -> AnswerFuture:
        """Send UNSUBSCRIBE for one neighborhood, or without nsid for all under the filter."""
        return self._connection.answers.ask(partial(self._send_end, topic, nsid))

    def end(self, topic: str, nsid: int | None, answer: Answer) -> None:
        """Forget what was ended; raise when the broker refused that."""
        refusal = answer.refusal(UnsubscribeRefusedError, end_text(topic))
        if refusal is not None:
            raise refusal
        if nsid is not None:
            self._remove(nsid)
            return
        with self._lock:
            self._plain.pop(topic, None)
            for one in [n for n, held in self._neighborhoods.items() if held.topic == topic]:
                del self._neighborhoods[one]
                self._warnings.pop(one, None)

    def nsids(self) -> tuple[int, ...]:
        """Return the nsids of the neighborhoods that are held."""
        with self._lock:
            return tuple(self._neighborhoods)

    def topic_of(self, nsid: int) -> str:
        """Return the topic filter of a neighborhood; raise when this client does not hold it."""
        with self._lock:
            held = self._neighborhoods.get(nsid)
        if held is None:
            raise ClientUseError(f"this client holds no neighborhood {nsid}")
        return held.topic

    def warnings(self, nsid: int) -> tuple[str, ...]:
        """Return the broker's warnings about this neighborhood."""
        with self._lock:
            return self._warnings.get(nsid, ())

    def _all(self) -> list[Request]:
        with self._lock:
            return [*self._plain.values(), *self._neighborhoods.values()]

    def _remove(self, nsid: int) -> None:
        with self._lock:
            self._neighborhoods.pop(nsid, None)
            self._warnings.pop(nsid, None)

    def _send(self, request: Request) -> tuple[MQTTErrorCode, int | None]:
        return self._connection.subscribe(request.topic, request.qos, request.user_properties())

    def _send_end(self, topic: str, nsid: int | None) -> tuple[MQTTErrorCode, int | None]:
        return self._connection.unsubscribe(topic, [] if nsid is None else [(NSID, str(nsid))])

    def _undo(self, request: Request, answer: Answer) -> None:
        """End what was granted after the caller had stopped waiting."""
        if answer.code.is_failure:
            return
        granted = _with_nsid(request, answer)
        if granted.nsid is not None:
            # If it has replaced a subscription of this client, then that one is gone already.
            self._remove(granted.nsid)
            self._send_end(granted.topic, granted.nsid)
        elif all(held.topic != granted.topic for held in self._all()):
            self._send_end(granted.topic, None)

    def _restore(self) -> None:
        """Ask for everything again, in order; runs on the network thread."""
        for request in self._all():
            try:
                future = self._connection.answers.ask(partial(self._send, request))
            except NotConnectedError:
                return  # lost again; the next connection restores everything
            future.add_done_callback(partial(self._restored, request))

    def _restored(self, request: Request, future: AnswerFuture) -> None:
        if future.exception() is not None:
            return  # the connection was lost again
        refusal = refusal_of(request, future.result())
        if refusal is not None:
            # It stays held: what is refused now may be granted after the next reconnect.
            self._connection.report(refusal)


def end_text(topic: str) -> str:
    """Return how errors name an UNSUBSCRIBE."""
    return f"unsubscribe from {topic!r}"


def _with_nsid(request: Request, answer: Answer) -> Request:
    nsids = numbers_of(answer.user_properties, NSID)
    return replace(request, nsid=nsids[0] if nsids else None)
