"""Clients whose identifier is the URL of their own description (Client ID Metadata Documents).

A document is fetched once in a while and kept, also the news that there is none; a host is not asked more often than
HOST_INTERVAL says. Nothing of what a client names gets into a log but the host.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from cachetools import LRUCache

from demarkus_broker.oauth import registration
from demarkus_broker.oauth.clients import Client
from demarkus_broker.oauth.errors import Code, OAuthError
from demarkus_broker.oauth.outbound import Answer, Outbound, OutboundError, may_be_asked, within

MAX_URL = 512
MAX_BYTES = 5 << 10
TIMEOUT = 5.0
LEAST_FRESH, MOST_FRESH, FRESH = 60, 86400, 600
"""Seconds for which a document is kept: what its headers say, between the first two, or else the third."""
ABSENT = 60
"""Seconds for which it is remembered that there is no good document."""
HOST_INTERVAL = 1.0
"""Seconds between two fetches from one host."""
MOST = 1000
MOST_UNDER_WAY = 32

_MAX_AGE = re.compile(r"(?:^|[,\s])max-age=([0-9]{1,9})(?:$|[,\s])")

log = logging.getLogger(__name__)


class Documents:
    """The described clients of a gateway."""

    def __init__(self, outbound: Outbound, *, now: Callable[[], float] = time.monotonic) -> None:
        self._outbound = outbound
        self._now = now
        self._kept: LRUCache[str, tuple[float, Client | None]] = LRUCache(MOST)
        self._asked: LRUCache[str, float] = LRUCache(MOST)
        self._under_way: dict[str, asyncio.Task[Client | None]] = {}

    async def find(self, client_id: str) -> Client:
        """The client of a URL. Raises OAuthError if there is no good document of it."""
        if not is_document_url(client_id):
            raise OAuthError(Code.INVALID_CLIENT, "a client_id that is a URL is https with a path, and nothing more")
        until, client = self._kept.get(client_id, (float("-inf"), None))
        if until <= self._now():
            task = self._under_way.get(client_id)
            if task is None:
                self._may_ask(client_id)
                task = self._under_way[client_id] = asyncio.create_task(self._fetched(client_id, known=client))
                task.add_done_callback(lambda _: self._under_way.pop(client_id, None))
            client = await asyncio.shield(task)
        if client is None:
            raise OAuthError(Code.INVALID_CLIENT, "there is no good client metadata document at client_id")
        return client

    def _may_ask(self, client_id: str) -> None:
        host = urlsplit(client_id).netloc
        if self._asked.get(host, float("-inf")) + HOST_INTERVAL > self._now() or len(self._under_way) >= MOST_UNDER_WAY:
            raise OAuthError(Code.TEMPORARILY_UNAVAILABLE, "the host of client_id was asked a moment ago; try again")
        self._asked[host] = self._now()

    async def _fetched(self, client_id: str, *, known: Client | None) -> Client | None:
        """Fetch a document and keep it; where that fails, what was known stays for a while."""
        try:
            answer = await within(TIMEOUT, self._outbound, client_id, headers={"Accept": "application/json"})
            client = described(client_id, answer)
        except (OutboundError, OAuthError) as error:
            host = urlsplit(client_id).netloc
            log.info("client metadata refused", extra={"fields": {"host": host, "reason": str(error)}})
            self._kept[client_id] = self._now() + ABSENT, known if isinstance(error, OutboundError) else None
            return self._kept[client_id][1]
        self._kept[client_id] = self._now() + freshness(answer.headers.get("cache-control", "")), client
        return client


def is_document_url(client_id: str) -> bool:
    """Whether a client's identifier can be the URL of its description."""
    if not may_be_asked(client_id) or len(client_id) > MAX_URL or any(mark in client_id for mark in "#?\\ \t\r\n"):
        return False
    path = urlsplit(client_id).path
    return len(path) > 1 and not any(part in (".", "..") for part in path.split("/"))


def described(client_id: str, answer: Answer) -> Client:
    """The client that an answer describes. Raises OAuthError."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if answer.status != 200 or len(answer.body) > MAX_BYTES:
        raise OAuthError(Code.INVALID_CLIENT_METADATA, f"not 200, or more than {MAX_BYTES} bytes")
    if kind != "application/json" and not re.fullmatch(r"application/[a-z0-9.-]+\+json", kind):
        raise OAuthError(Code.INVALID_CLIENT_METADATA, "not JSON")
    try:
        content = json.loads(answer.body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("client_id") != client_id:
        raise OAuthError(Code.INVALID_CLIENT_METADATA, "client_id in it is not its URL")
    if "client_secret" in content or content.get("token_endpoint_auth_method", "none") != "none":
        raise OAuthError(Code.INVALID_CLIENT_METADATA, "such a client is public")
    found = registration.described(content)
    return Client(id=client_id, name=found.name, redirect_uris=found.redirect_uris)


def freshness(cache_control: str) -> float:
    """Seconds for which a document is kept."""
    if "no-store" in cache_control or "no-cache" in cache_control:
        return LEAST_FRESH
    found = _MAX_AGE.search(cache_control)
    return min(max(int(found[1]), LEAST_FRESH), MOST_FRESH) if found else FRESH
