"""Answers of the broker reach their caller, whatever happens while a packet is being sent."""

from __future__ import annotations

import threading

import pytest
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from spaps.client.answers import Answer, Answers
from spaps.client.errors import NotConnectedError

ANSWER = Answer(ReasonCode(PacketTypes.PUBACK), None, ())
SUCCESS = MQTTErrorCode.MQTT_ERR_SUCCESS


def test_an_answer_after_the_packet_was_sent() -> None:
    answers = Answers()
    future = answers.ask(lambda: (SUCCESS, 7))
    assert not future.done()
    answers.arrived(7, ANSWER)
    assert future.result(0) is ANSWER


def test_an_answer_that_comes_while_the_packet_is_being_sent() -> None:
    """The network thread must not wait for the sender: paho's own lock is between them."""
    answers = Answers()

    def send() -> tuple[MQTTErrorCode, int]:
        network = threading.Thread(target=answers.arrived, args=(7, ANSWER), daemon=True)
        network.start()
        network.join(timeout=30)
        assert not network.is_alive()
        return SUCCESS, 7

    assert answers.ask(send).result(0) is ANSWER


def test_an_early_answer_is_for_its_own_packet_alone() -> None:
    answers = Answers()

    def send() -> tuple[MQTTErrorCode, int]:
        answers.arrived(8, ANSWER)
        return SUCCESS, 7

    assert not answers.ask(send).done()
    assert not answers.ask(lambda: (SUCCESS, 8)).done()


def test_a_connection_that_is_lost_while_the_packet_is_being_sent() -> None:
    answers = Answers()

    def send() -> tuple[MQTTErrorCode, int]:
        answers.lose_all()
        return SUCCESS, 7

    with pytest.raises(NotConnectedError):
        answers.ask(send).result(0)


@pytest.mark.parametrize("number", [7, None])
def test_a_packet_that_cannot_be_sent(number: int | None) -> None:
    answers = Answers()
    with pytest.raises(NotConnectedError):
        answers.ask(lambda: (MQTTErrorCode.MQTT_ERR_NO_CONN, number))
    answers.arrived(7, ANSWER)
    assert not answers.ask(lambda: (SUCCESS, 7)).done()
