"""The client library stands alone, and says the same as the broker."""

from __future__ import annotations

import dataclasses
import json
from types import MappingProxyType
from typing import Any

import pytest

import spaps
from broker.codec.reason_codes import ReasonCode
from broker.resolver.resolver_worker import reason_of
from schemas import mqtt_names
from schemas.errors import DescriptorError, NoReferenceError, NotationError
from schemas.language import limits
from schemas.language.notation import read_neighborhood
from spaps.client import message
from spaps.client.errors import ClientUseError, NeighborhoodRefusedError
from spaps.client.subscriptions import descriptor_text

# Where the broker has each name that the client repeats.
ORIGINALS = {
    "NEIGHBORHOOD": mqtt_names.NEIGHBORHOOD,
    "NSID": mqtt_names.NSID,
    "PEID": mqtt_names.PEID,
    "WARNING": mqtt_names.WARNING,
    "MAX_PEID": limits.MAX_PEID,
    "MAX_DESCRIPTOR_BYTES": limits.MAX_DESCRIPTOR_BYTES,
    "CHANGES_TOPIC": mqtt_names.CHANGES_TOPIC,
    "NONE_LEFT": mqtt_names.NONE_LEFT,
    "NEIGHBORHOOD_REFUSED": ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    "NEIGHBORHOOD_MALFORMED": ReasonCode.TOPIC_FILTER_INVALID,
}


def test_every_name_of_the_client_is_the_brokers() -> None:
    repeated = {name: value for name, value in vars(message).items() if name.isupper()}
    assert repeated == ORIGINALS


def test_a_descriptor_that_breaks_a_rule_gets_the_code_that_the_client_knows() -> None:
    for error in (DescriptorError("x", 1), NotationError("x", 0, "y")):
        assert reason_of(error) == message.NEIGHBORHOOD_MALFORMED
    assert reason_of(NoReferenceError((1,), 1)) == message.NEIGHBORHOOD_REFUSED


@pytest.mark.parametrize("has_references", [True, False])
@pytest.mark.parametrize("counted", [(3, 0), (None, None)])
def test_a_notice_of_the_broker_reads_as_it_was_written(
    counted: tuple[int | None, int | None], *, has_references: bool
) -> None:
    gained, lost = counted
    change = mqtt_names.NeighborhoodChange(
        nsid=7, gained=gained, lost=lost, has_references=has_references, version=2, generation=5
    )
    (read,) = message.changes_from_json(mqtt_names.changes_to_json([change]).encode())
    assert dataclasses.asdict(read) == dataclasses.asdict(change)


def test_every_public_name_is_there() -> None:
    for name in spaps.__all__:
        assert getattr(spaps, name) is not None
    with pytest.raises(AttributeError, match="NoSuchName"):
        _ = spaps.NoSuchName


OBJECT: dict[str, Any] = {"refs": [1], "stages": [{"cats": ["road/#"], "cond": "C"}]}


def test_text_is_sent_as_it_is() -> None:
    for text in ("({1},{road/#},C)", json.dumps(OBJECT, indent=2), "nonsense", ""):
        assert descriptor_text(text) == text


def test_objects_are_sent_as_json() -> None:
    neighborhood = read_neighborhood("({1},{road/#},C)")
    nested = MappingProxyType({"refs": (1,), "stages": [MappingProxyType(OBJECT["stages"][0])]})
    for given in (OBJECT, nested, neighborhood):
        assert json.loads(descriptor_text(given)) == OBJECT


def test_what_no_packet_can_carry_is_refused_here() -> None:
    assert len(descriptor_text("é" + "x" * 65_533)) == 65_534
    wrongs: list[tuple[Any, str]] = [
        ("é" + "x" * 65_534, "65536 bytes; allowed: 65535"),
        ("({1},{\0},C)", r"U\+0000"),
        ("\ud800", "cannot be written"),
        ({"refs": object()}, "object is no JSON"),
        ({"refs": float("nan")}, "cannot be written"),
        ([1], "not list"),
        (None, "not NoneType"),
    ]
    for wrong, expected in wrongs:
        with pytest.raises(ClientUseError, match=expected):
            descriptor_text(wrong)


@pytest.mark.parametrize(
    ("reason", "stage"),
    [("stage 12: at character 3: x", 12), ("no reference exists", None), (None, None)],
)
def test_the_stage_of_a_refusal(reason: str | None, stage: int | None) -> None:
    assert NeighborhoodRefusedError("a", 0x83, "name", reason).stage == stage
