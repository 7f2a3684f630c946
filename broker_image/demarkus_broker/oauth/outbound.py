"""Requests that the gateway itself makes: to the provider that the operator named, and to addresses that clients name.

Never a redirect, a cookie or a proxy from the environment; answers have an end in size and time. What clients name is
reached only at public addresses: those are filtered where a name is resolved for the very connection that is made, so
nothing can change between a check and its use.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

TIMEOUT = 10.0
"""Seconds for a request, its answer included."""
MAX_ANSWER = 256 << 10
"""Bytes of an answer."""


class OutboundError(Exception):
    """There is no answer. The text is a few words and holds nothing of what was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Outbound(Protocol):
    """How requests are made. Raises OutboundError."""

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], form: Mapping[str, str] | None = None
    ) -> Answer: ...


class AiohttpOutbound:
    """Requests with aiohttp. `public`: only to public addresses, over https."""

    def __init__(self, *, public: bool, timeout: float = TIMEOUT, most: int = MAX_ANSWER) -> None:
        """Must be called in a running loop."""
        self._public = public
        self._most = most
        resolver: AbstractResolver = ThreadedResolver()
        connector = aiohttp.TCPConnector(
            resolver=PublicResolver(resolver) if public else resolver, use_dns_cache=False, limit_per_host=8
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=timeout),
            trust_env=False,
        )

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], form: Mapping[str, str] | None = None
    ) -> Answer:
        """See `Outbound`."""
        if self._public and not may_be_asked(url):
            raise OutboundError("not an address that may be asked")
        try:
            async with self._session.request(
                method, url, headers=dict(headers), data=form, allow_redirects=False
            ) as answer:
                body = await answer.content.read(self._most + 1)
                while not answer.content.at_eof() and len(body) <= self._most:
                    body += await answer.content.read(self._most + 1 - len(body))
                if len(body) > self._most:
                    raise OutboundError("the answer is too large")
                return Answer(
                    status=answer.status,
                    headers={name.lower(): value for name, value in answer.headers.items()},
                    body=body,
                )
        except TimeoutError:
            raise OutboundError("no answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise OutboundError(f"no answer ({type(error).__name__})") from None

    async def close(self) -> None:
        """Let go of all connections."""
        await self._session.close()


class PublicResolver(AbstractResolver):
    """Resolves names to public addresses only."""

    def __init__(self, inner: AbstractResolver) -> None:
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The public addresses of a name; OSError if it has one that is not, or none at all."""
        found = await self._inner.resolve(host, port, family)
        if not found or not all(is_public(one["host"]) for one in found):
            raise OSError("the name leads to an address that is not public")
        return found

    async def close(self) -> None:
        """Let go of the resolver inside."""
        await self._inner.close()


def is_public(address: str) -> bool:
    """Whether a numeric address is one of the public internet, also inside an IPv6 address that carries an IPv4 one."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
        if ip in ipaddress.ip_network("64:ff9b::/96"):
            inner.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
        if any(one is not None and not one.is_global for one in inner):
            return False
    return ip.is_global and not ip.is_multicast


def may_be_asked(url: str) -> bool:
    """Whether a URL names a host over https: no numeric address, no user, no odd port."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        return False
    if parts.scheme != "https" or not host or "@" in parts.netloc or port not in (None, 443):
        return False
    return "." in host and not host.endswith(".") and not host.rpartition(".")[2].isdigit() and ":" not in host


async def within(seconds: float, outbound: Outbound, url: str, *, headers: Mapping[str, str]) -> Answer:
    """GET a URL within a time of its own. Raises OutboundError."""
    try:
        async with asyncio.timeout(seconds):
            return await outbound.request("GET", url, headers=headers)
    except TimeoutError:
        raise OutboundError("no answer in time") from None
