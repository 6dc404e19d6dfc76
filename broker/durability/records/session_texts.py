"""Sessions and subscriptions as JSON: they change rarely, and people look at them in redis-cli."""

from __future__ import annotations

import json
from typing import Any, Final

from broker.core.journal import SessionSaved, Will
from broker.core.message import Message
from broker.core.subscribe.subscription import SubscriptionTerms
from schemas.errors import JournalError, LaterFormatError

FORMAT: Final = 1


def session_text(record: SessionSaved) -> bytes:
    """The session without the message of its will."""
    return _text(
        {
            "user": record.user_name,
            "expiryInterval": record.expiry_interval,
            "expiresAt": record.expires_at,
            "willDelay": None if record.will is None else record.will.delay,
            "willAt": record.will_at,
            "host": record.host,
        }
    )


def read_session(client_id: str, text: bytes, will: Message | None) -> SessionSaved:
    """The session as it was saved, with the message of its will if there is one."""
    content = _content(text, f"the session of {client_id!r}")
    try:
        delay = content["willDelay"]
        if (delay is None) != (will is None):
            raise JournalError(f"the session of {client_id!r} has lost a part of its will")
        return SessionSaved(
            client_id,
            content["user"],
            content["expiryInterval"],
            content["expiresAt"],
            None if will is None else Will(will, delay),
            content["willAt"],
            # Sessions of earlier releases have none.
            content.get("host"),
        )
    except KeyError as error:
        raise JournalError(f"the session of {client_id!r} lacks {error}") from error


def terms_text(terms: SubscriptionTerms) -> bytes:
    """A subscription."""
    return _text(
        {
            "filter": terms.topic_filter,
            "qos": terms.qos,
            "noLocal": terms.no_local,
            "retainAsPublished": terms.retain_as_published,
            "retainHandling": terms.retain_handling,
            "identifier": terms.identifier,
            "nsid": terms.nsid,
            "subId": terms.sub_id,
            "descriptor": terms.descriptor,
        }
    )


def read_terms(client_id: str, text: bytes) -> SubscriptionTerms:
    """The subscription as it was saved."""
    where = f"a subscription of {client_id!r}"
    content = _content(text, where)
    try:
        return SubscriptionTerms(
            topic_filter=content["filter"],
            qos=content["qos"],
            no_local=content["noLocal"],
            retain_as_published=content["retainAsPublished"],
            retain_handling=content["retainHandling"],
            identifier=content["identifier"],
            nsid=content["nsid"],
            sub_id=content["subId"],
            descriptor=content["descriptor"],
        )
    except KeyError as error:
        raise JournalError(f"{where} lacks {error}") from error


def _text(content: dict[str, Any]) -> bytes:
    content["format"] = FORMAT
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _content(text: bytes, where: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
        form = content["format"]
    except (ValueError, TypeError, KeyError) as error:
        raise JournalError(f"{where} is damaged: {error!r}") from error
    if form != FORMAT:
        raise LaterFormatError(f"{where} has format {form}", FORMAT)
    found: dict[str, Any] = content
    return found
