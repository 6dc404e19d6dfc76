"""Subscribing and giving back: packets, answers, and asking again after a reconnect."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.subscribeoptions import SubscribeOptions

from spaps.client.answers import Answer, AnswerFuture, wait_for
from spaps.client.errors import (
    ClientUseError,
    NotConnectedError,
    UnsubscribeRefusedError,
)
from spaps.client.link import ClientLink
from spaps.client.message import numbers_of, packet_properties
from spaps.client.neighborhoods import HeldSubscriptions, Request, refusal_of
from spaps.client.protocol import NSID, WARNING


class Subscribing:
    """What a client does about its subscriptions, on its connection."""

    def __init__(self, link: ClientLink, held: HeldSubscriptions) -> None:
        self._link = link
        self._held = held
        link.on_new_session = self._restore

    def subscribe(self, request: Request, timeout: float) -> Request:
        """Ask, wait, and hold what is granted: the same request with its nsid."""
        self._link.check_may_wait()
        future = self._link.answers.ask(partial(self._send, request), partial(self._undo, request))
        answer = wait_for(future, str(request), timeout)
        refusal = refusal_of(request, answer)
        if refusal is not None:
            raise refusal
        granted = _granted(request, answer)
        warnings = [value for name, value in answer.user_properties if name == WARNING]
        self._held.add(granted, tuple(warnings))
        return granted

    def subscribe_neighborhood(self, request: Request, timeout: float) -> int:
        """The same for a neighborhood; its nsid, which every broker that knows them gives."""
        nsid = self.subscribe(request, timeout).nsid
        if nsid is None:
            # It has granted the topic alone, and would send everything.
            self.give_back(request.topic, None, timeout)
            raise ClientUseError(f"{request}: this broker knows no neighborhoods")
        return nsid

    def give_back(self, topic: str, nsid: int | None, timeout: float) -> None:
        """End one neighborhood, or everything under the filter."""
        self._link.check_may_wait()
        what = f"unsubscribe from {topic!r}"
        future = self._link.answers.ask(partial(self._send_end, topic, nsid))
        refusal = wait_for(future, what, timeout).refusal(UnsubscribeRefusedError, what)
        if refusal is not None:
            raise refusal
        if nsid is None:
            self._held.remove_topic(topic)
        else:
            self._held.remove(nsid)

    def _send(self, request: Request) -> tuple[MQTTErrorCode, int | None]:
        return self._link.subscribe(
            request.topic,
            SubscribeOptions(qos=request.qos),
            packet_properties(PacketTypes.SUBSCRIBE, request.user_properties()),
        )

    def _send_end(self, topic: str, nsid: int | None) -> tuple[MQTTErrorCode, int | None]:
        pairs = [] if nsid is None else [(NSID, str(nsid))]
        return self._link.unsubscribe(topic, packet_properties(PacketTypes.UNSUBSCRIBE, pairs))

    def _undo(self, request: Request, answer: Answer) -> None:
        """Granted after the caller has given up waiting: nothing may stay behind."""
        if answer.code.is_failure:
            return
        granted = _granted(request, answer)
        if granted.nsid is not None:
            # If it has replaced one of ours, then that one is gone already.
            self._held.remove(granted.nsid)
            self._send_end(granted.topic, granted.nsid)
        elif all(held.topic != granted.topic for held in self._held.all()):
            self._send_end(granted.topic, None)

    def _restore(self) -> None:
        """On the network thread: the broker has a new session, without our subscriptions."""
        for request in self._held.all():
            try:
                future = self._link.answers.ask(partial(self._send, request))
            except NotConnectedError:
                return  # lost again; the next connection restores everything
            future.add_done_callback(partial(self._restored, request))

    def _restored(self, request: Request, future: AnswerFuture) -> None:
        if future.exception() is not None:
            return  # the connection was lost again
        refusal = refusal_of(request, future.result())
        if refusal is not None:
            # It stays held: what is refused now may be granted after the next reconnect.
            self._link.report(refusal)


def _granted(request: Request, answer: Answer) -> Request:
    """The request with the number that the broker gave it."""
    nsids = numbers_of(answer.user_properties, NSID)
    return replace(request, nsid=nsids[0]) if nsids else replace(request, nsid=None)
