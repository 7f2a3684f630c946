"""Whether the watches live: when each was last heard of, be it an event or a bookmark.

A watch can fall silent without an error, behind a load balancer or an API server that hangs. The API server sends a
bookmark about once a minute where nothing changes, so silence means something. kopf keeps bookmarks to itself;
therefore its HTTP session is one that notes what arrives (`session`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import aiohttp
import kopf

SILENCE = 180.0
"""Seconds without an event or a bookmark of a kind after which the process should be started anew."""


class Pulse:
    """When each watch was last heard of, by the path that it watches. Used by one event loop.

    Attributes:
        silence: seconds after which a watch counts as dead.
    """

    def __init__(self, *, clock: Callable[[], float], silence: float = SILENCE) -> None:
        self.silence = silence
        self._clock = clock
        self._heard: dict[str, float] = {}
        self._listed: set[str] = set()

    def expect(self, paths: Iterable[str]) -> None:
        """These are watched from now on."""
        self._heard = dict.fromkeys(paths, self._clock())
        self._listed.clear()

    def beat(self, path: str) -> None:
        """Something came from the watch of this path."""
        if path in self._heard:
            self._heard[path] = self._clock()

    def lists(self, path: str) -> bool:
        """A listing of this path begins; whether it was listed before, so that events may have been missed."""
        again = path in self._listed
        self._listed.add(path)
        return again and path in self._heard

    @property
    def ages(self) -> dict[str, float]:
        """Seconds since each watch was last heard of."""
        now = self._clock()
        return {path: now - heard for path, heard in self._heard.items()}

    def complaints(self) -> tuple[str, ...]:
        """The watches that fell silent, in words."""
        return tuple(
            f"nothing was heard of {path} for {age:.0f} s" for path, age in self.ages.items() if age > self.silence
        )


def session(info: kopf.ConnectionInfo, pulse: Pulse, missed: Callable[[], None]) -> kopf.AiohttpSession:
    """What kopf would make of this, with the pulse noted. `missed` is called when events may have been missed."""

    class Response(aiohttp.ClientResponse):
        async def start(self, connection: Any) -> aiohttp.ClientResponse:
            await super().start(connection)
            if self.status == 200 and "watch" in self.url.query:
                pulse.beat(self.url.path)
                self.content = _Noted(self.content, lambda: pulse.beat(self.url.path))  # type: ignore[assignment]
            elif self.status == 200 and "continue" not in self.url.query and pulse.lists(self.url.path):
                missed()
            return self

    made = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=info.as_http_headers(),
        response_class=Response,
    )
    return kopf.AiohttpSession(aiohttp_session=made, server=info.server, default_namespace=info.default_namespace)


class _Noted:
    """A stream of which each part is noted as it is read."""

    def __init__(self, stream: aiohttp.StreamReader, note: Callable[[], None]) -> None:
        self._stream = stream
        self._note = note

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """As of the stream."""
        async for chunk in self._stream.iter_chunked(size):
            self._note()
            yield chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
