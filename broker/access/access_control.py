"""Topics judged by the access file, by amqtt's plugins, or by both."""

from __future__ import annotations

from broker.access.access_files import WatchedFile
from broker.access.amqtt_plugins import PluginAccess
from broker.access.topic_rules import AccessRules
from broker.codec.reason_codes import ReasonCode
from broker.core.verdicts import AccessControl, Action, AllowAll, Identity, Verdict


class RulesAndPlugins:
    """Refused when the file refuses; otherwise the plugins have the last word, if there are any."""

    def __init__(
        self, rules: WatchedFile[AccessRules] | None, denial: Verdict, *, ask_plugins: bool
    ) -> None:
        """``denial`` is what a client gets to see when the file refuses."""
        self._rules = rules
        self._denial = denial
        self._ask_plugins = ask_plugins

    def verdict(self, client: Identity, topic: str, action: Action) -> Verdict | None:
        """The file's verdict at once; None when the plugins must be asked."""
        if self._rules is not None:
            verdict = self._rules.content.verdict(client, topic, action)
            if verdict is not ReasonCode.SUCCESS:
                return self._denial
        return None if self._ask_plugins else ReasonCode.SUCCESS


def denial_code(*, tells_why: bool) -> Verdict:
    """What a client reads when a topic is not for it.

    MQTT 5 has a code for a server that does not wish to reveal its reason.
    """
    return ReasonCode.NOT_AUTHORIZED if tells_why else ReasonCode.UNSPECIFIED_ERROR


def access_control(
    rules: WatchedFile[AccessRules] | None, plugins: PluginAccess, denial: Verdict
) -> AccessControl:
    """Who decides about topics, given the access file (if any) and the plugins."""
    if rules is None and not plugins.judges_topics:
        return AllowAll()
    return RulesAndPlugins(rules, denial, ask_plugins=plugins.judges_topics)
