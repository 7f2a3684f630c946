"""A git repository: every commit of the first-parent line that changes an `.md` file makes a version of a document.

A version carries who made the commit and when (`author`, `timestamp`, `commit`). A file that is renamed is a new
document, and the old one is archived, as is a file that is deleted. Only reading commands of `git` run, in the
repository as it is, without hooks, pagers, filters or network.
"""

from __future__ import annotations

import asyncio
import os
import re
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from demarkus_world.transfer.model import Candidate, Here, History, Refused, SourceError, Version
from demarkus_world.transfer.report import Report
from demarkus_world.transfer.runs import examined
from demarkus_world.transfer.spool import Spool
from mark_protocol import limits
from mark_protocol.metadata import with_default_type
from mark_protocol.times import format_rfc3339
from mark_protocol.versions import encode_version

MAX_CHANGES = 2_000_000
AUTHOR_LENGTH = 200
SILENCE = 600.0
"""Seconds that git may take to say the next thing: before the first one it walks the whole history."""

_QUIET: Mapping[str, str] = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_SETTINGS = (
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "log.showSignature=false"),
    *("-c", "i18n.logOutputEncoding=UTF-8"),
)
_FILES = frozenset({b"100644", b"100755"})
_OBJECT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_TOKEN = 1 << 20


@dataclass(frozen=True, slots=True)
class _Commit:
    """Who, and when, in seconds: `written` by the author, `committed` to the line."""

    name: str
    written: int
    committed: int
    author: str


@dataclass(frozen=True, slots=True)
class _Change:
    """A file as a commit leaves it: its blob, or None for deleted. `fault` says why it can't become a version."""

    commit: _Commit
    blob: str | None
    fault: str | None = None


class Git:
    """A source. `revision` names the newest commit."""

    name = "git repository"
    counted = True

    def __init__(self, repository: Path, report: Report, *, revision: str = "HEAD") -> None:
        self._repository = repository
        self._report = report
        self._revision = revision
        self._open = AsyncExitStack()

    async def close(self) -> None:
        """End what still runs."""
        await self._open.aclose()

    async def candidates(self) -> AsyncIterator[Candidate]:
        """Every path that ever was an `.md` file in the line."""
        changes = await self._changes()
        # It answers for as long as the source is open: documents are looked at when all of them are known.
        blobs = _Blobs(await self._open.enter_async_context(self._running("cat-file", "--batch")))
        for path in sorted(changes):
            yield _Document(path, changes[path], blobs, self._report)

    async def _changes(self) -> dict[str, list[_Change]]:
        """The changes of every path, oldest first."""
        name = f"{self._revision}^{{commit}}"
        head, said = await self._only_line("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        if head is None:
            raise SourceError(f"{self._repository}: {self._revision} names no commit of a git repository{said}")
        changes: dict[str, list[_Change]] = {}
        count = 0
        async with self._running(
            *("log", "--first-parent", "--diff-merges=first-parent", "--reverse", "--root"),
            *("--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv", "-z"),
            *("--format=%H %at %ct %an", head, "--", ":(top,glob)**/*.md"),
        ) as running:
            commit: _Commit | None = None
            while (token := await _token(running)) is not None:
                if not token.startswith(b":"):
                    commit = _commit(token)
                    continue
                path = await _token(running)
                if commit is None or path is None:
                    raise SourceError("git said something that is not understood")
                count += 1
                if count > MAX_CHANGES:
                    raise SourceError(f"the repository has more than {MAX_CHANGES} changes of .md files")
                name = "/" + path.decode(errors="surrogateescape")
                changes.setdefault(name, []).append(_change(commit, token))
            await _ended_well(running)
        return changes

    async def _only_line(self, *arguments: str) -> tuple[str | None, str]:
        """The object that git names, or None and what it says instead."""
        async with self._running(*arguments) as running:
            async with asyncio.timeout(SILENCE):
                output, complaint = await running.communicate()
        line = output.strip()
        if running.returncode == 0 and _OBJECT.fullmatch(line):
            return line.decode(), ""
        said = complaint.decode(errors="replace").strip().splitlines()
        return None, f": {said[0]}" if said else ""

    @asynccontextmanager
    async def _running(self, *arguments: str) -> AsyncIterator[Process]:
        """A git command; it is ended when the caller is done with it."""
        try:
            process = await asyncio.create_subprocess_exec(
                *("git", "--no-pager", *_SETTINGS, "-C", str(self._repository), *arguments),
                stdin=PIPE if arguments[0] == "cat-file" else DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                env={**os.environ, **_QUIET},
                limit=_TOKEN,
            )
        except FileNotFoundError:
            raise SourceError("the git command is not installed") from None
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


class _Blobs:
    """Contents of files, from one `git cat-file --batch`, one question at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._asking = asyncio.Lock()

    async def read(self, name: str, *, limit: int) -> bytes | None:
        """A blob's content, None if it is larger than `limit`. Raises SourceError."""
        source, sink = self._process.stdout, self._process.stdin
        assert source is not None
        assert sink is not None
        async with self._asking, asyncio.timeout(SILENCE):
            try:
                sink.write(f"{name}\n".encode())
                await sink.drain()
                header = (await source.readline()).split()
                if len(header) != 3 or header[1] != b"blob":
                    raise SourceError(f"git has no blob {name}")
                left = int(header[2]) + 1
                if left - 1 <= limit:
                    return (await source.readexactly(left))[:-1]
                while left:
                    left -= len(await source.readexactly(min(left, _TOKEN)))
                return None
            except (OSError, asyncio.IncompleteReadError):
                raise SourceError(f"git ended while it was asked for {name}") from None


@dataclass(slots=True)
class _Document:
    path: str
    changes: list[_Change]
    blobs: _Blobs
    report: Report

    async def history(self, here: Here | None) -> History | None:
        """One version for each commit that gave the file another content."""
        spool = Spool()
        try:
            versions = await self._versions(spool)
        except BaseException:
            spool.close()
            raise
        deleted = self.changes[-1].blob is None and self.changes[-1].fault is None
        return History(versions=versions, read=spool.read, archived=deleted, close=spool.close)

    async def _versions(self, spool: Spool) -> list[Version]:
        versions: list[Version] = []
        before: str | None = None
        fault: str | None = None
        for change in self.changes:
            if change.blob == before and change.fault is None:
                continue
            before = change.blob
            if change.blob is None and change.fault is None:
                continue
            number = len(versions) + 1
            previous = versions[-1].etag if versions else None
            version, data = await self._version(change, number, previous)
            fault = version.fault
            if fault is not None:
                self.report.refuse(self.path, f"commit {change.commit.name[:12]}: {fault}")
                continue
            await spool.keep(number, data)
            versions.append(version)
        if fault is not None:
            raise Refused(f"its newest content can't come over: {fault}")
        return versions

    async def _version(self, change: _Change, number: int, previous: str | None) -> tuple[Version, bytes]:
        if change.blob is None:
            return Version(number=number, fault=change.fault), b""
        body = await self.blobs.read(change.blob, limit=limits.BODY)
        if body is None:
            return Version(number=number, fault=f"it is over {limits.BODY} bytes"), b""
        metadata = with_default_type(self.path, _metadata(change.commit))
        data = encode_version(number, previous, metadata, body)
        return examined(data, number, modified=max(change.commit.committed, 0) * 1000), data


def _metadata(commit: _Commit) -> dict[str, str]:
    metadata = {"commit": commit.name, "timestamp": format_rfc3339(max(commit.written, 0) * 1000)}
    author = " ".join(commit.author.split())[:AUTHOR_LENGTH]
    return metadata | ({"author": author} if author else {})


async def _token(running: Process) -> bytes | None:
    """What stands before the next NUL; None at the end."""
    assert running.stdout is not None
    try:
        async with asyncio.timeout(SILENCE):
            return (await running.stdout.readuntil(b"\0"))[:-1].removeprefix(b"\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise SourceError("git broke off in the middle of its history") from None
        return None
    except asyncio.LimitOverrunError:
        raise SourceError(f"git said more than {_TOKEN} bytes at once") from None
    except TimeoutError:
        raise SourceError(f"git said nothing for {SILENCE:g} s") from None


async def _ended_well(running: Process) -> None:
    assert running.stderr is not None
    said = (await running.stderr.read(4096)).decode(errors="replace").strip()
    if await running.wait() != 0:
        raise SourceError(f"git failed: {said.splitlines()[-1] if said else running.returncode}")


def _commit(token: bytes) -> _Commit:
    name, written, committed, author = token.split(b" ", 3)
    return _Commit(name.decode(), int(written), int(committed), author.decode(errors="replace"))


def _change(commit: _Commit, token: bytes) -> _Change:
    """The change in `:<old mode> <new mode> <old blob> <new blob> <status>`."""
    _, mode, _, blob, status = token[1:].split(b" ")
    if status == b"D":
        return _Change(commit, None)
    if mode not in _FILES:
        return _Change(commit, None, "it is a symbolic link or a submodule")
    return _Change(commit, blob.decode())
