"""Access rules: what a line allows, and that names and odd files never widen it."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.access.topic_rules import AccessRules, parse_rules, read_rules
from broker.codec.reason_codes import ReasonCode
from broker.core.verdicts import Action, Identity
from schemas.errors import SettingsError

ALICE = Identity("phone", "alice")
ANONYMOUS = Identity("phone", None)


def allows(rules: str, client: Identity, topic: str, action: Action = Action.RECEIVE) -> bool:
    return parse_rules(rules, "rules").verdict(client, topic, action) is ReasonCode.SUCCESS


@pytest.mark.parametrize(
    ("pattern", "topic", "fits"),
    [
        ("allowed", "allowed", True),
        ("allowed", "allowed/secret", False),
        ("allowed/", "allowed", False),
        ("allowed/#", "allowed", True),
        ("allowed/#", "allowed/secret/deep", True),
        ("allowed/#", "allowedness", False),
        ("allowed/+", "allowed/one", True),
        ("allowed/+", "allowed/one/two", False),
        ("allowed/+", "allowed", False),
        ("+/+", "/", True),
        ("+", "a/b", False),
        ("#", "a/b", True),
        ("#", "$SYS/broker/uptime", False),
        ("+/broker/uptime", "$SYS/broker/uptime", False),
        ("$SYS/#", "$SYS/broker/uptime", True),
        ("a b/c", "a b/c", True),
    ],
)
def test_reading_a_topic(pattern: str, topic: str, fits: bool) -> None:
    assert allows(f"user alice\ntopic read {pattern}", ALICE, topic) is fits


@pytest.mark.parametrize(
    ("pattern", "topic_filter", "fits"),
    [
        ("a/#", "a/#", True),
        ("a/#", "a/+/c", True),
        ("a/#", "a", True),
        ("a/#", "#", False),
        ("a/#", "+/#", False),
        ("a/+", "a/+", True),
        ("a/+", "a/#", False),
        ("a/+", "a/+/#", False),
        ("+", "#", False),
        ("+/b", "+/b", True),
        ("a/b", "a/+", False),
        ("#", "#", True),
        ("#", "$SYS/#", False),
        ("$SYS/#", "$SYS/broker/+", True),
    ],
)
def test_subscribing_needs_a_rule_for_all_of_the_filter(
    pattern: str, topic_filter: str, fits: bool
) -> None:
    rules = f"user alice\ntopic read {pattern}"
    assert allows(rules, ALICE, topic_filter, Action.SUBSCRIBE) is fits


def test_reading_and_writing_are_two_rights() -> None:
    rules = "user alice\ntopic read r\ntopic write w\ntopic both\ntopic readwrite too"
    verdicts = {
        (topic, action)
        for topic in ("r", "w", "both", "too")
        for action in (Action.SUBSCRIBE, Action.RECEIVE, Action.PUBLISH)
        if allows(rules, ALICE, topic, action)
    }
    reads = {
        (topic, action)
        for topic in ("r", "both", "too")
        for action in (Action.SUBSCRIBE, Action.RECEIVE)
    }
    assert verdicts == reads | {(topic, Action.PUBLISH) for topic in ("w", "both", "too")}


def test_lines_before_the_first_user_are_for_clients_without_a_name() -> None:
    rules = "topic read public/#\nuser alice\ntopic read private/#"
    assert allows(rules, ANONYMOUS, "public/news")
    assert not allows(rules, ANONYMOUS, "private/news")
    assert not allows(rules, ALICE, "public/news")
    assert allows(rules, ALICE, "private/news")
    assert not allows(rules, Identity("phone", "bob"), "private/news")


@pytest.mark.parametrize(
    "order", ["topic a/#\ntopic deny a/secret/#", "topic deny a/secret/#\ntopic a/#"]
)
def test_a_denial_beats_what_is_allowed_wherever_it_stands(order: str) -> None:
    rules = f"user alice\n{order}"
    assert allows(rules, ALICE, "a/open")
    assert not allows(rules, ALICE, "a/secret/x")
    assert not allows(rules, ALICE, "a/secret/x", Action.PUBLISH)
    assert not allows(rules, ALICE, "a/secret/+", Action.SUBSCRIBE)
    # Granted: each delivery is judged again.
    assert allows(rules, ALICE, "a/#", Action.SUBSCRIBE)


def test_patterns_name_user_and_client() -> None:
    rules = "pattern readwrite users/%u/#\npattern write from/x-%c-%u"
    assert allows(rules, ALICE, "users/alice/mail")
    assert not allows(rules, ALICE, "users/bob/mail")
    assert allows(rules, ALICE, "from/x-phone-alice", Action.PUBLISH)
    assert not allows(rules, ANONYMOUS, "users/None/mail")
    assert not allows(rules, ANONYMOUS, "users//mail")


@pytest.mark.parametrize("name", ["+", "#", "a/b", "alice/#", "x+", "/"])
@pytest.mark.parametrize("action", [Action.PUBLISH, Action.SUBSCRIBE, Action.RECEIVE])
def test_wildcards_and_slashes_in_names_never_widen(name: str, action: Action) -> None:
    rules = "pattern readwrite users/%u/#\npattern readwrite clients/%c/#"
    topics = (
        "users/alice/mail",
        "users/a/b",
        "users/+/x",
        "users/#",
        f"users/{name}/x",
        "users/alice",
    )
    for topic in topics:
        assert not allows(rules, Identity("c", name), topic, action)
        assert not allows(rules, Identity(name, None), topic.replace("users", "clients"), action)


def test_a_name_that_looks_like_a_placeholder_stays_a_name() -> None:
    rules = "pattern read users/%u/%c"
    assert allows(rules, Identity("%u", "%c"), "users/%c/%u")
    assert not allows(rules, Identity("victim", "%c"), "users/victim/victim")


@pytest.mark.parametrize("name", ["+", "a/b", None])
def test_a_denial_by_name_holds_for_names_that_cannot_be_written_into_it(name: str | None) -> None:
    rules = "pattern read #\npattern deny private/%u/#"
    assert not allows(rules, Identity("c", name), "private/a/b")
    assert not allows(rules, Identity("c", name), "private/alice/x")
    assert allows(rules, Identity("c", name), "public")


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n   # at all\n"])
def test_an_empty_file_allows_nothing(text: str) -> None:
    for action in Action:
        assert not allows(text, ALICE, "a", action)
        assert not allows(text, ANONYMOUS, "a", action)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("topic", "the filter is empty"),
        ("topic read", "a topic must follow 'read'"),
        ("topic read a/#/b", "# must be the last level"),
        ("topic a+", "+ must stand alone"),
        ("pattern read %u+", "+ must stand alone"),
        ("user", "a user name must follow"),
        ("usr alice", "expected user, topic, pattern or neighborhood, not 'usr'"),
        (
            "topic dney secret/#",
            "expected read, write, readwrite or deny before the topic, not 'dney'",
        ),
        (
            "pattern Read own/%c",
            "expected read, write, readwrite or deny before the topic, not 'Read'",
        ),
        ("topic two words", "expected read, write, readwrite or deny before the topic, not 'two'"),
        ("topic deny\tsecret/#", r"words are separated by spaces, not by '\t'"),
        ("topic deny\u00a0secret/#", r"words are separated by spaces, not by '\xa0'"),
        ("topic $share/group/a", "judged by its filter"),
        ("topic $neighborhood/old/a", "judged are the filter"),
        ("neighborhood", "expected the name of a neighborhood"),
        ("neighborhood read", "expected the name of a neighborhood"),
        ("neighborhood write old", "expected read or deny before a name, not 'write'"),
        ("neighborhood read old town", "expected read or deny before a name, not 'read old'"),
        ("neighborhood read old/town", "expected the name of a neighborhood"),
        ("neighborhood read +", "expected the name of a neighborhood"),
        ("neighborhood read home-%u", "expected the name of a neighborhood"),
        ("pattern neighborhood raed old", "expected read or deny before a name, not 'raed'"),
    ],
)
def test_a_line_that_is_not_understood_is_named(line: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_rules(f"topic read a\n{line}\n", "acl.conf")
    assert str(caught.value).startswith("acl.conf, line 2: ")
    assert complaint in str(caught.value)


def test_a_topic_with_spaces_needs_its_access() -> None:
    alice = Identity("c", "alice")
    for line in ("topic read two words", "topic readwrite  two words", "topic deny one"):
        parse_rules(f"user alice\n{line}\n", "acl.conf")
    rules = parse_rules("user alice\ntopic read two words\n", "acl.conf")
    assert rules.verdict(alice, "two words", Action.RECEIVE) is ReasonCode.SUCCESS


def test_rules_of_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        read_rules(tmp_path / "absent")
    (tmp_path / "bytes").write_bytes(b"topic \xff")
    with pytest.raises(SettingsError, match="not UTF-8"):
        read_rules(tmp_path / "bytes")


def test_more_clients_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.access.topic_rules.REMEMBERED_CLIENTS", 3)
    rules = parse_rules("pattern read own/%c", "rules")
    for round_of_clients in range(2):
        for number in range(10):
            client = Identity(f"c{number}", None)
            assert rules.verdict(client, f"own/c{number}", Action.RECEIVE) is ReasonCode.SUCCESS
            other = f"own/c{number + 1}"
            assert rules.verdict(client, other, Action.RECEIVE) is ReasonCode.NOT_AUTHORIZED
        assert len(rules._of_client) <= 3, round_of_clients


def test_no_rules_at_all_is_a_denial() -> None:
    assert AccessRules().verdict(ALICE, "a", Action.PUBLISH) is ReasonCode.NOT_AUTHORIZED


def may_use(rules: str, client: Identity, name: str) -> bool:
    return allows(rules, client, name, Action.USE_NEIGHBORHOOD)


def test_a_file_of_topics_alone_lets_everybody_use_every_name() -> None:
    rules = "user alice\ntopic read a/#"
    assert may_use(rules, ALICE, "old-town")
    assert may_use(rules, ANONYMOUS, "old-town")


def test_with_a_line_about_names_each_name_needs_a_right() -> None:
    rules = (
        "neighborhood public\nuser alice\nneighborhood read old-town\n"
        "user bob\nneighborhood read #\nneighborhood deny old-town\n"
        "pattern neighborhood read home-%u"
    )
    bob = Identity("phone", "bob")
    names = ("public", "old-town", "home-alice", "home-bob")
    found = {
        client: [name for name in names if may_use(rules, client, name)]
        for client in (ANONYMOUS, ALICE, bob)
    }
    assert found == {
        ANONYMOUS: ["public"],
        ALICE: ["old-town", "home-alice"],
        bob: ["public", "home-alice", "home-bob"],
    }


def test_rights_to_names_and_to_topics_are_apart() -> None:
    rules = "user alice\nneighborhood read old-town\ntopic read a"
    assert not allows(rules, ALICE, "old-town", Action.SUBSCRIBE)
    assert not may_use(rules, ALICE, "a")


@pytest.mark.parametrize("name", ["+", "#", "a/b"])
def test_a_user_name_never_widens_a_rule_about_names(name: str) -> None:
    rules = "pattern neighborhood read %u"
    assert not may_use(rules, Identity("c", name), "old-town")
    assert may_use(rules, Identity("c", "old-town"), "old-town")
