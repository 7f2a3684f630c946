"""A running server, read over the wire (`mark://host[:port]`): everything LIST shows, every retained version.

The stored bytes of a version are rebuilt from what FETCH tells and compared with its etag; only what is equal comes
over. A server of March 2026 sends an etag for the newest version alone: there the whole chain is rebuilt from version
1 on and that one etag proves it.

LIST hides names that begin with a dot. The well-known documents are asked for by name; others can't be found this way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from demarkus_world.transfer.model import Candidate, Here, History, Refused, SourceError, Version
from demarkus_world.transfer.report import Report
from demarkus_world.transfer.runs import examined
from demarkus_world.transfer.spool import Spool
from mark_protocol import listings
from mark_protocol.client.client import ClientError, MarkClient, Unreachable
from mark_protocol.listings import ListingError, VersionLine, parse_list, parse_versions
from mark_protocol.metadata import CURSOR, INCLUDE_ARCHIVED
from mark_protocol.rebuild import old_form, publisher_part, rebuilt
from mark_protocol.request import Request, Verb
from mark_protocol.response import Response
from mark_protocol.status import Status
from mark_protocol.times import parse_rfc3339
from mark_protocol.transport.port import Untrusted

WELL_KNOWN = ("/.well-known/agent-manifest.md", "/.well-known/demarkus/policy.md")
ATTEMPTS = 8
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
AT_ONCE = 8
"""Versions of one document that are asked for at once."""
IN_FLIGHT = 32
"""Requests that have left or may leave: what waits here does not use up the time a request has."""
MAX_DIRECTORIES = 1_000_000

Pause = Callable[[float], Awaitable[None]]


class Wire:
    """A source. `start` is the document or directory to begin with; the client stays the caller's."""

    name = "server"
    counted = False

    def __init__(
        self,
        client: MarkClient,
        report: Report,
        *,
        start: str = "/",
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._asking = _Asking(client, pause)
        self._start = "/" + start.strip("/")
        self._report = report

    async def candidates(self) -> AsyncIterator[Candidate]:
        """Every document that the server lists."""
        asking = self._asking
        if self._start != "/" and self._start.endswith(".md"):
            yield _Document(self._start, asking)
            return
        if self._start == "/":
            for path in WELL_KNOWN:
                yield _Document(path, asking)
        directories = [self._start]
        seen = 0
        while directories:
            seen += 1
            if seen > MAX_DIRECTORIES:
                raise SourceError(f"the server lists more than {MAX_DIRECTORIES} directories")
            directory = directories.pop()
            below: list[str] = []
            async for child in self._children(directory):
                path = f"{directory.rstrip('/')}/{child.name}"
                if child.is_directory:
                    below.append(path)
                else:
                    yield _Document(path, asking)
            directories.extend(reversed(below))

    async def _children(self, directory: str) -> AsyncIterator[listings.Child]:
        """All pages of a LIST, checked for going forward."""
        shown = directory if directory == "/" else f"{directory}/"
        metadata = {INCLUDE_ARCHIVED: "true"}
        last = b""
        while True:
            response = await self._asking.ask(Verb.LIST, shown, metadata)
            if response.status != Status.OK:
                if directory == self._start:
                    raise SourceError(f"LIST {shown}: {_said(response)}")
                self._report.refuse(shown, f"its listing was refused: {_said(response)}")
                return
            try:
                children = parse_list(response.body)
            except ListingError as error:
                raise SourceError(f"LIST {shown}: {error}") from None
            for child in children:
                name = child.name.encode(errors="surrogateescape")
                if name <= last:
                    raise SourceError(f"LIST {shown}: its pages are not in order")
                last = name
                yield child
            cursor = response.metadata.get("next-cursor")
            if response.metadata.get("complete", "true") == "true" or not cursor:
                return
            if not children:
                raise SourceError(f"LIST {shown}: a page without entries says that more follow")
            metadata = {INCLUDE_ARCHIVED: "true", CURSOR: cursor}


@dataclass(frozen=True, slots=True)
class _Told:
    """What a server tells of a version. Without an etag it is an old one's."""

    number: int
    etag: str | None
    modified: int
    metadata: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Document:
    path: str
    asking: _Asking

    async def history(self, here: Here | None) -> History | None:
        """Its versions from the newest one here on; all that are retained if there is none."""
        lines, predecessor = await self._lines()
        if not lines:
            return None
        head = await self.asking.ask(Verb.FETCH, self.path, {})
        archived = head.status == Status.ARCHIVED
        if head.status not in (Status.OK, Status.ARCHIVED):
            raise Refused(f"FETCH: {_said(head)}")
        newest = lines[-1].number
        if here is not None and await self._is(here, newest, head):
            known = Version(number=here.number, etag=here.hashes[here.number])
            return History(versions=[known], read=_no_bytes, archived=archived)
        spool = Spool()
        try:
            versions = await self._rebuilt(lines, predecessor, head, here, spool)
        except BaseException:
            spool.close()
            raise
        return History(versions=versions, read=spool.read, archived=archived, close=spool.close)

    async def _is(self, here: Here, newest: int, head: Response) -> bool:
        """Whether the newest version here is the newest one there, without asking for its content again."""
        if here.number != newest:
            return False
        told = head.metadata.get("etag")
        if told is None:
            version = await self.asking.ask(
                Verb.FETCH, f"{self.path}/v{newest}", {"if-none-match": here.hashes[here.number]}
            )
            return version.status == Status.NOT_MODIFIED
        return told == here.hashes[here.number]

    async def _lines(self) -> tuple[list[VersionLine], str | None]:
        """The retained versions, oldest first, and the hash of the one before them if the server tells it."""
        response = await self.asking.ask(Verb.VERSIONS, self.path, {})
        if response.status == Status.NOT_FOUND:
            return [], None
        if response.status != Status.OK:
            raise Refused(f"VERSIONS: {_said(response)}")
        try:
            lines = sorted(parse_versions(response.body), key=lambda line: line.number)
        except ListingError as error:
            raise Refused(f"VERSIONS: {error}") from None
        if not lines or response.metadata.get("total", str(len(lines))) != str(len(lines)):
            raise Refused("VERSIONS: the list does not hold as many versions as it says")
        return lines, response.metadata.get("predecessor-hash", "").removeprefix("sha256-") or None

    async def _rebuilt(
        self,
        lines: Sequence[VersionLine],
        predecessor: str | None,
        head: Response,
        here: Here | None,
        spool: Spool,
    ) -> list[Version]:
        """Examine the versions, oldest first, and keep the bytes of those that are right in the spool."""
        known = here.hashes if here is not None else {}
        newest = lines[-1].number
        since = min(here.number, newest) if here is not None else 0
        if head.status == Status.OK and head.metadata.get("version") != str(newest):
            raise Refused("it was changed while it was read")
        wanted = [line.number for line in lines if line.number >= since]
        versions: list[Version] = []
        # The version looked at before, and its hash as far as it is known.
        number, link = lines[0].number - 1, predecessor
        for start in range(0, len(wanted), AT_ONCE):
            page = wanted[start : start + AT_ONCE]
            for told in await asyncio.gather(*(self._told(each) for each in page)):
                if isinstance(told, _Told):
                    if told.number == newest and told.etag is None:
                        told = replace(told, etag=head.metadata.get("etag"))
                    previous = known.get(told.number - 1) or (link if number == told.number - 1 else None)
                    if here is not None and told.number <= here.number and told.etag is not None:
                        version = Version(number=told.number, etag=told.etag, previous=previous)
                    else:
                        version = await self._one(told, previous, spool, newest=newest)
                    number, link = told.number, told.etag or version.etag or None
                else:
                    version = told
                    number, link = told.number, None
                versions.append(version)
        return versions

    async def _one(self, told: _Told, link: str | None, spool: Spool, *, newest: int) -> Version:
        data, fault = _bytes(told, link, newest=newest)
        if data is None:
            return Version(number=told.number, etag=told.etag or "", fault=fault)
        version = examined(data, told.number, modified=told.modified)
        if version.fault is None:
            await spool.keep(told.number, data)
        return version

    async def _told(self, number: int) -> _Told | Version:
        response = await self.asking.ask(Verb.FETCH, f"{self.path}/v{number}", {})
        if response.status != Status.OK:
            return Version(number=number, fault=f"FETCH: {_said(response)}")
        if response.metadata.get("version") != str(number):
            return Version(number=number, fault="FETCH: the server sent another version")
        modified = parse_rfc3339(response.metadata.get("modified", ""))
        return _Told(
            number=number,
            etag=response.metadata.get("etag"),
            modified=max(int(modified.timestamp() * 1000), 0) if modified else 0,
            metadata=publisher_part(response.metadata),
            body=response.body,
        )


def _bytes(told: _Told, link: str | None, *, newest: int) -> tuple[bytes | None, str | None]:
    """The stored bytes, or why they can't be had."""
    if told.number > 1 and link is None:
        return None, "the hash of the version before it, which is part of its bytes, is not told"
    previous = link if told.number > 1 else None
    if told.etag is not None:
        data = rebuilt(told.etag, told.number, previous, told.metadata, told.body)
        return data, "the bytes rebuilt from what the server tells do not have its etag"
    if told.number == newest:
        return None, "the server tells no etag for it, so its bytes can't be proven"
    # Whether this is right shows at the newest version, whose bytes hold the hash of the one before, and so on.
    return old_form(told.number, previous, told.metadata, told.body), None


class _Asking:
    """Requests with patience: a server that is busy says so, or nothing at all, and is asked again."""

    def __init__(self, client: MarkClient, pause: Pause) -> None:
        self._client = client
        self._pause = pause
        self._free = asyncio.Semaphore(IN_FLIGHT)

    async def ask(self, verb: Verb, path: str, metadata: Mapping[str, str]) -> Response:
        """Raises SourceError when the server stays silent or busy."""
        wait = FIRST_PAUSE
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with self._free:
                    response = await self._client.request(Request(verb, path, metadata))
            except ValueError as error:
                raise Refused(f"{verb}: {error}") from None
            except Unreachable as error:
                if attempt == ATTEMPTS or isinstance(error.__cause__, Untrusted):
                    raise SourceError(str(error)) from error
            except ClientError as error:
                raise SourceError(str(error)) from error
            else:
                if response.status != Status.RATE_LIMITED:
                    return response
                if attempt == ATTEMPTS:
                    raise SourceError(f"{verb} {path}: the server still says {_said(response)}")
            await self._pause(wait)
            wait = min(wait * 2, LONGEST_PAUSE)
        raise SourceError(f"{verb} {path}: no answer")


async def _no_bytes(number: int) -> bytes:
    raise AssertionError(f"version {number} is here already")


def _said(response: Response) -> str:
    text = " ".join(response.body.decode(errors="replace").split("\n")[2:]).strip()[:200]
    return f"{response.status}" + (f" ({text})" if text else "")
