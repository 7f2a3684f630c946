"""The verbs of the Mark protocol as calls, and its retry rule (Mark protocol 1.4).

A read is tried up to five times. A write is tried again only as long as no byte of it has left: after that a failure
means that nobody here knows whether it happened, and it is never sent a second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType

from mark_protocol.client.pool import Pool
from mark_protocol.client.watch import Watch
from mark_protocol.lookups import FILTER, INCLUDE_SUPERSEDED, LIMIT, MATCH, QUERY
from mark_protocol.metadata import AUTH, EXPECTED_VERSION
from mark_protocol.request import Request, Verb, encode_request
from mark_protocol.response import Response, ResponseError, parse_response
from mark_protocol.transport.port import NotSent, TransportError, Unanswered, Untrusted

ATTEMPTS = 5
PAUSE = 0.1
"""Seconds between two attempts."""

WRITES = frozenset({Verb.PUBLISH, Verb.APPEND, Verb.ARCHIVE})

Auth = str | Callable[[], Awaitable[str]]
_NOTHING: Mapping[str, str] = MappingProxyType({})


class ClientError(Exception):
    """A request got no usable response; the text says why and holds no credential."""


class Unreachable(ClientError):
    """Nothing happened at the server, or it was a read: the same request may be tried again later."""


class OutcomeUnknown(ClientError):
    """A write has left and no response says what became of it. Look at the document before writing again."""


class MarkClient:
    """Requests to one server. The pool stays the caller's to close.

    Args:
        pool: connections to the server.
        auth: credential for every request that brings none of its own: a text, or where to ask for one.
        timeout: seconds for a request with all of its attempts.
    """

    def __init__(self, pool: Pool, *, auth: Auth | None = None, timeout: float = 10.0) -> None:
        self._pool = pool
        self._auth = auth
        self._timeout = timeout

    async def fetch(self, path: str, *, metadata: Mapping[str, str] = _NOTHING) -> Response:
        """FETCH a document, a version of it (`/doc.md/v3`), a content address or a directory."""
        return await self.request(Request(Verb.FETCH, path, metadata))

    async def list(self, path: str, *, metadata: Mapping[str, str] = _NOTHING) -> Response:
        """LIST a directory."""
        return await self.request(Request(Verb.LIST, path, metadata))

    async def versions(self, path: str, *, metadata: Mapping[str, str] = _NOTHING) -> Response:
        """VERSIONS of a document."""
        return await self.request(Request(Verb.VERSIONS, path, metadata))

    async def publish(
        self, path: str, body: bytes, *, expected_version: int | None = None, metadata: Mapping[str, str] = _NOTHING
    ) -> Response:
        """PUBLISH a whole document. An expected version of 0 means "must not exist"; None does not check."""
        return await self.request(Request(Verb.PUBLISH, path, _expecting(metadata, expected_version), body))

    async def append(
        self, path: str, body: bytes, *, expected_version: int, metadata: Mapping[str, str] = _NOTHING
    ) -> Response:
        """APPEND to the document as it was in the expected version."""
        return await self.request(Request(Verb.APPEND, path, _expecting(metadata, expected_version), body))

    async def archive(self, path: str, *, metadata: Mapping[str, str] = _NOTHING) -> Response:
        """ARCHIVE a document."""
        return await self.request(Request(Verb.ARCHIVE, path, metadata))

    async def lookup(
        self,
        scope: str,
        query: str,
        *,
        filter: str = "",
        limit: int | None = None,
        match: str = "",
        include_superseded: bool = False,
        metadata: Mapping[str, str] = _NOTHING,
    ) -> Response:
        """LOOKUP documents below `scope`; `*` matches all. `lookups.parse_matches` reads the answer."""
        options = {
            FILTER: filter,
            LIMIT: "" if limit is None else str(limit),
            MATCH: match,
            INCLUDE_SUPERSEDED: "true" if include_superseded else "",
        }
        given = {key: value for key, value in options.items() if value}
        return await self.request(Request(Verb.LOOKUP, scope, {**metadata, QUERY: query, **given}))

    def watch(self, path: str, *, since: str = "", coalesce: bool = False) -> Watch:
        """WATCH a document, or all below a path that ends in a slash, for as long as the result is not closed.

        It raises ValueError for a path that can't be sent, Untrusted, and WatchRefused.
        """

        async def follow(metadata: dict[str, str]) -> AsyncGenerator[bytes, None]:
            request = await self._authorised(Request(Verb.WATCH, path, metadata))
            async with aclosing(self._pool.follow(encode_request(request), timeout=self._timeout)) as pieces:
                async for piece in pieces:
                    yield piece

        return Watch(follow, since=since, coalesce=coalesce, renewable=callable(self._auth))

    async def request(self, request: Request) -> Response:
        """Send any request. Whatever status comes back is a response, also a refusal.

        Raises:
            ValueError: the request cannot be encoded (path, metadata or body break a limit of the protocol).
            OutcomeUnknown: a write may or may not have happened.
            Unreachable: every attempt failed and nothing was written; the last failure is the cause.
        """
        data = encode_request(await self._authorised(request))
        write = request.verb in WRITES
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        problem: Exception | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(PAUSE)
            remaining = deadline - loop.time()
            if remaining <= 0:
                break
            try:
                return _understood(await self._pool.exchange(data, timeout=remaining))
            except Untrusted as error:
                raise Unreachable(str(error)) from error
            except NotSent as error:
                problem = error
            except (Unanswered, ResponseError) as error:
                if write:
                    raise OutcomeUnknown(f"{request.verb} {request.path}: outcome unknown: {error}") from error
                problem = error
            except TransportError as error:
                raise Unreachable(str(error)) from error
        raise Unreachable(f"{request.verb} {request.path}: {problem}") from problem

    async def _authorised(self, request: Request) -> Request:
        if self._auth is None or AUTH in request.metadata:
            return request
        auth = self._auth if isinstance(self._auth, str) else await self._auth()
        return Request(request.verb, request.path, {**request.metadata, AUTH: auth}, request.body)


def _expecting(metadata: Mapping[str, str], version: int | None) -> Mapping[str, str]:
    return metadata if version is None else {**metadata, EXPECTED_VERSION: str(version)}


def _understood(answer: bytes) -> Response:
    response = parse_response(answer)
    if not response.status:
        # A server that shuts down, or an old one that is overloaded, closes the stream without a word.
        raise ResponseError("the server sent no status")
    return response
