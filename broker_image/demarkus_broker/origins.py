"""Which `Host` and `Origin` a request may carry: the defence against DNS rebinding.

Pure. A page that rebinds its own name to our address still sends its own name as Host, and its own Origin; both have to
be ours. Programs send no Origin. Pages on loopback (inspectors, local tools) may call; the bearer is theirs to have.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from demarkus_broker.settings import is_loopback

_DEFAULT_PORTS = {"http": 80, "https": 443}


def host_is_ours(host: str | None, public_url: str) -> bool:
    """Whether a Host header names this gateway. A gateway on loopback answers to every name of loopback."""
    there = _authority(f"//{host}") if host else None
    ours = urlsplit(public_url)
    if there is None or ours.hostname is None:
        return False
    name, port = there
    default = _DEFAULT_PORTS[ours.scheme]
    if (port or default) != (ours.port or default):
        return False
    return name == ours.hostname or (is_loopback(name) and is_loopback(ours.hostname))


def origin_may_call(origin: str | None, public_url: str) -> bool:
    """Whether a page of this origin may call `/mcp`; a request without an Origin is no page's."""
    if origin is None:
        return True
    there = _authority(origin) if origin.startswith(("http://", "https://")) else None
    if there is None or urlsplit(origin).path or urlsplit(origin).query:
        return False
    return origin.lower() == public_url or is_loopback(there[0])


def _authority(url: str) -> tuple[str, int | None] | None:
    try:
        parts = urlsplit(url)
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not name or "@" in parts.netloc:
        return None
    return name, port
