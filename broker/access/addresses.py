"""Addresses of listeners and clients, and the key of an address in quotas."""

from __future__ import annotations

import ipaddress
import os
import ssl
from dataclasses import dataclass
from typing import Final

from schemas.errors import SettingsError

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_public(self) -> bool:
        """Whether other machines can reach it; True when that is not known."""
        if self.host == "localhost":
            return False
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return True


def cannot_listen(what: str, address: Address, error: OSError) -> SettingsError:
    """Return the error of a listener that cannot be opened, with its address and the reason."""
    number = error.errno or 0
    # Those of the resolver of names are negative.
    reason = os.strerror(number) if number > 0 else error.strerror or error
    return SettingsError(f"{what} at {address}: {reason}")


@dataclass(frozen=True, slots=True)
class Origin:
    """The address and certificate of a client."""

    address: str | None = None
    port: int | None = None
    tls: ssl.SSLObject | None = None

    def __str__(self) -> str:
        host = f"[{self.address}]" if self.address and ":" in self.address else self.address
        return "unknown" if host is None else f"{host}:{self.port}"


def parse_address(text: str, name: str, default_port: int) -> Address:
    """Return the address in HOST:PORT, HOST or PORT; the default host is this machine alone."""
    stripped = text.strip()
    if stripped.startswith("["):
        host, bracket, rest = stripped[1:].partition("]")
        port = rest.removeprefix(":")
        if not bracket or (rest and not rest.startswith(":")):
            raise _wrong(name, text)
    elif stripped.isdecimal():
        host, port = "", stripped
    else:
        host, _, port = stripped.partition(":")
    if port and not (port.isdecimal() and port.isascii() and int(port) <= 65_535):
        raise _wrong(name, text)
    if any(character.isspace() for character in host) or not stripped:
        raise _wrong(name, text)
    return Address(host or LOOPBACK, int(port) if port else default_port)


def quota_host(address: str) -> str:
    """Return the key of an address in quotas: for IPv6 its /64, which belongs to one client."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        if not parsed.is_loopback:
            return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _wrong(name: str, text: str) -> SettingsError:
    return SettingsError(f"{name} must be HOST:PORT, not {text!r} (IPv6: [HOST]:PORT)")
