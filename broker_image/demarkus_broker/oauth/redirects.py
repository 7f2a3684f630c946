"""Where people may be sent back to. Pure.

What a client registered has to be met exactly, character by character (RFC 9700, 2.1), but for the port on loopback,
which a program on somebody's machine gets from its system (RFC 8252, 7.3).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

MAX_LENGTH = 512
NATIVE_SCHEMES = frozenset({"cursor", "vscode", "vscode-insiders"})
"""Schemes of programs that open themselves (RFC 8252, 7.1)."""

_CHARACTERS = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()+,;=%]+")  # RFC 3986 without `#` and `*`
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


def why_not(uri: str) -> str | None:
    """Why a client can't register a redirect URI; None if it can."""
    if len(uri) > MAX_LENGTH:
        return f"a redirect URI has at most {MAX_LENGTH} characters"
    if not _CHARACTERS.fullmatch(uri):
        return "a redirect URI has no fragment, no wildcard, and only characters of RFC 3986"
    parts = _split(uri)
    if parts is None:
        return "a redirect URI is absolute, with a scheme and a host"
    if "@" in parts.netloc:
        return "a redirect URI has no user information"
    if is_loopback(parts) or (parts.scheme in NATIVE_SCHEMES and parts.netloc):
        return None
    if parts.scheme != "https":
        return "a redirect URI is https, or http on loopback"
    return None if _is_public(parts.hostname) else "an https redirect URI names a host, not an address"


def matches(registered: Iterable[str], asked: str) -> bool:
    """Whether a redirect URI that a client asks for is one of those it registered."""
    if why_not(asked) is not None:
        return False
    return any(asked == one or _same_but_port(one, asked) for one in registered)


def is_loopback(parts: SplitResult) -> bool:
    """Whether a URI leads to a program on the same machine over http."""
    return parts.scheme == "http" and _without_port(parts) in _LOCAL_NAMES


def is_native(uri: str) -> bool:
    """Whether a redirect URI belongs to a program on somebody's machine, not to a web site."""
    parts = _split(uri)
    return parts is not None and (is_loopback(parts) or parts.scheme in NATIVE_SCHEMES)


def _same_but_port(registered: str, asked: str) -> bool:
    one, other = _split(registered), _split(asked)
    if one is None or other is None or not (is_loopback(one) and is_loopback(other)):
        return False
    return _without_port(one) == _without_port(other) and one[2:] == other[2:]


def _split(uri: str) -> SplitResult | None:
    try:
        parts = urlsplit(uri)
        usable = parts.scheme and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _without_port(parts: SplitResult) -> str:
    """The host exactly as it is written, so that odd spellings of a loopback address are none."""
    return re.sub(r":[0-9]*\Z", "", parts.netloc)


def _is_public(host: str | None) -> bool:
    if not host or "." not in host or host.endswith("."):
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return not host.rpartition(".")[2].isdigit()
    return False
