"""Until when certificates are valid, read from their files with the standard library alone."""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from schemas.errors import SettingsError

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# Tags of ASN.1 (X.690): what stands before the dates of a certificate, and their two forms.
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

    A certificate begins: version (may be left out), serial number, algorithm, issuer, validity.
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
