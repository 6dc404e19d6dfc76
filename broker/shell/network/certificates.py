"""The TLS certificates of listeners: load, reload on demand, and check when they expire.

The expiry is read from the file with the standard library alone.
"""

from __future__ import annotations

import logging
import re
import ssl
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from schemas.errors import Mistakes, SettingsError

log = logging.getLogger(__name__)

DAY: Final = 86_400.0


class Certificates:
    """One TLS context for each listener that has a certificate."""

    def __init__(self, listeners: Mapping[str, Any], warning_days: float) -> None:
        self._tables = {name: table for name, table in listeners.items() if table.get("ssl")}
        self._warning_seconds = warning_days * DAY
        self._contexts = server_contexts(self._tables)
        self._expiries = self._read_expiries()
        # Errors of the last reload, by listener.
        self._failures: dict[str, str] = {}
        for text in (*self.problems, *self.warnings):
            log.warning("%s", text)

    @property
    def expiries(self) -> dict[str, float]:
        """When the certificates expire, in seconds since 1970, by file."""
        return self._expiries

    @property
    def problems(self) -> list[str]:
        """Certificates that have expired or could not be reloaded."""
        now = time.time()
        expired = [
            f"certificate {file} expired on {_day(at)}"
            for file, at in self._expiries.items()
            if at <= now
        ]
        return expired + list(self._failures.values())

    @property
    def warnings(self) -> list[str]:
        """Certificates that expire soon."""
        now = time.time()
        return [
            f"certificate {file} expires on {_day(at)}: renew it and send SIGHUP"
            for file, at in self._expiries.items()
            if now < at <= now + self._warning_seconds
        ]

    def context_of(self, name: str) -> ssl.SSLContext:
        """Return a context for a listener that uses the loaded certificate for each new client."""

        def choose(
            connection: ssl.SSLObject | ssl.SSLSocket,
            _server_name: str | None,
            _context: ssl.SSLContext,
        ) -> None:
            connection.context = self._contexts[name]

        context = server_context(self._tables[name])
        context.sni_callback = choose
        return context

    def reload(self) -> None:
        """Load all files again; a listener with unusable files keeps its certificate."""
        self._failures.clear()
        for name, table in self._tables.items():
            try:
                self._contexts[name] = server_context(table)
            except SettingsError as error:
                self._failures[name] = f"listener {name} keeps its old certificate: {error}"
                log.error("%s", self._failures[name])  # noqa: TRY400 - its text is enough
        if self._tables and not self._failures:
            log.info("certificates loaded again")
        self._expiries = self._read_expiries()
        for text in self.warnings:
            log.warning("%s", text)

    def _read_expiries(self) -> dict[str, float]:
        files = [
            str(table[key])
            for table in self._tables.values()
            for key in ("certfile", "cafile")
            if table.get(key)
        ]
        found = {}
        for file in files:
            try:
                found[file] = expiry_of(Path(file))
            except SettingsError as error:
                log.warning("its expiry is not known: %s", error)
        return found


def server_contexts(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, ssl.SSLContext]:
    """Return the TLS contexts of listeners; SettingsError has all that cannot be used."""
    contexts: dict[str, ssl.SSLContext] = {}
    mistakes = Mistakes()
    for name, table in tables.items():
        with mistakes.noted(f"broker.listeners.{name}: "):
            contexts[name] = server_context(table)
    mistakes.check()
    return contexts


def server_context(table: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the TLS context of a listener; with a cafile, clients may send a certificate."""
    try:
        context = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH,
            cafile=table.get("cafile"),
            capath=table.get("capath"),
            cadata=table.get("cadata"),
        )
        context.load_cert_chain(table["certfile"], table["keyfile"])
    except (OSError, ValueError) as error:  # of ssl too
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        files = f"{table['certfile']}, {table['keyfile']}"
        raise SettingsError(f"{files}: {' '.join(str(reason).split())}") from error
    context.verify_mode = ssl.CERT_OPTIONAL
    if any(table.get(key) for key in ("cafile", "capath", "cadata")):
        # A session ticket would let a client reconnect whose authority was removed meanwhile.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# Tags of ASN.1 (X.690): the fields before the dates of a certificate, and both date forms.
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
_CENTURY_BORDER: Final = 50


def expiry_of(path: Path) -> float:
    """Return when the first certificate of a PEM file expires, in seconds since 1970."""
    try:
        blocks = _PEM.findall(path.read_text("ascii"))
        return min(not_after(ssl.PEM_cert_to_DER_cert(block)) for block in blocks)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from error
    except (ValueError, IndexError) as error:
        raise SettingsError(f"{path}: no certificate in PEM format") from error


def not_after(der: bytes) -> float:
    """Return the end of a certificate's validity; ValueError or IndexError for other bytes.

    A certificate begins with version (optional), serial number, algorithm, issuer, validity.
    """
    _, outer, _ = _element(der, 0)
    _, at, _ = _element(der, outer)
    tag, _, end = _element(der, at)
    before_validity = 4 if tag == _VERSION else 3
    for _ in range(before_validity):
        _, _, end = _element(der, at)
        at = end
    _, validity, _ = _element(der, at)
    _, _, second = _element(der, validity)
    tag, start, end = _element(der, second)
    text = der[start:end].decode("ascii")
    if tag == _UTC_TIME:
        century = "20" if int(text[:2]) < _CENTURY_BORDER else "19"
        text = century + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("no time where the validity should end")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _element(data: bytes, at: int) -> tuple[int, int, int]:
    """Return tag, start and end of the content of the element at a position."""
    tag, length, start = data[at], data[at + 1], at + 2
    if length >= 0x80:
        size = length & 0x7F
        length = int.from_bytes(data[start : start + size], "big")
        start += size
    if start + length > len(data):
        raise ValueError("cut off")
    return tag, start, start + length
