"""The export: a store as the tree of a Go server (Mark protocol 7.4), in the layout of today.

Versions are written byte for byte with their times, then the archive state, then the pointer, so that a document
appears in the tree complete. What is there already and equal stays; what is there and differs is never overwritten.
No symbolic link in the target is followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from demarkus_world.engine.engine import Engine, Head, StoreDamaged, VersionRecord
from demarkus_world.transfer.gotree import ARCHIVE_STATE, STATES, VERSIONS
from demarkus_world.transfer.many import for_each
from demarkus_world.transfer.model import Refused, SourceError
from demarkus_world.transfer.report import Report
from demarkus_world.transfer.rooted import NotRegular, Parts, Rooted
from mark_protocol import limits
from mark_protocol.numbers import parse_go_integer
from mark_protocol.versions import parse_version

AT_ONCE = 16

_UNFINISHED = ".demarkus-export.tmp"


class Export:
    """One export of an open store into a folder, which is made if it is not there."""

    def __init__(self, engine: Engine, target: Path, report: Report) -> None:
        """Raises SourceError when the folder can't be used."""
        self.looked_at = 0
        self.total: int | None = None
        self._engine = engine
        self._report = report
        try:
            target.mkdir(exist_ok=True)
            self._rooted = Rooted(target)
        except OSError as error:
            raise SourceError(f"{target}: {error.strerror}") from None

    def close(self) -> None:
        """Let go of the folder."""
        self._rooted.close()

    async def run(self) -> None:
        """Write everything that is not there yet. Raises SourceError, EngineError."""
        self.total = (await self._engine.view(exact=True)).documents
        await for_each(self._heads(), self._document, at_once=AT_ONCE)
        await asyncio.to_thread(os.sync)

    async def _heads(self) -> AsyncIterator[Head]:
        view = await self._engine.view(exact=True)
        folders = ["/"]
        while folders:
            folder = folders.pop()
            below: list[str] = []
            for child in list(view.children(folder)):
                if child.head is not None:
                    yield child.head
                else:
                    below.append(f"{folder.rstrip('/')}/{child.name}")
            folders.extend(reversed(below))

    async def _document(self, head: Head) -> None:
        path = head.record.path
        records = (await self._engine.view(exact=False)).versions(path)
        parts = tuple(path.split("/")[1:])
        inside = (*parts[:-1], VERSIONS, parts[-1])
        try:
            present = await asyncio.to_thread(self._present, parts, inside, head.record.version)
            added = 0
            for record in records:
                added += await self._version(record, inside, present)
            await self._state(head, inside, present)
            await asyncio.to_thread(self._point, parts, head.record.version)
        except (Refused, StoreDamaged) as refusal:
            self._report.refuse(path, str(refusal))
        except OSError as error:
            self._report.refuse(path, f"it can't be written: {error.strerror}")
        else:
            self._report.present += added == 0
            self._report.archived += head.archived and added > 0
        finally:
            self.looked_at += 1

    async def _version(self, record: VersionRecord, inside: Parts, present: frozenset[str]) -> bool:
        """Whether the version had to be written."""
        name = f"v{record.version}"
        data = await self._engine.stored(record)
        if name in present:
            await asyncio.to_thread(self._compare, (*inside, name), data)
            return False
        await asyncio.to_thread(self._write, inside, name, data, record.modified)
        self._report.add_version(record.path, len(data))
        return True

    async def _state(self, head: Head, inside: Parts, present: frozenset[str]) -> None:
        """Write the archive state where the newest version's header does not say it already."""
        said = parse_version(await self._engine.stored(head.record)).archived
        if said == head.archived and ARCHIVE_STATE not in present:
            return
        content = next(text for text, archived in STATES.items() if archived == head.archived)
        await asyncio.to_thread(self._write, inside, ARCHIVE_STATE, content, None)

    # From here on: in a thread.

    def _present(self, parts: Parts, inside: Parts, newest: int) -> frozenset[str]:
        """The names among a document's versions, whose folder is made; nothing in its way, nothing newer."""
        with self._rooted.opened(inside, create=True) as folder:
            names = frozenset(os.listdir(folder))
        numbers = [parse_go_integer(name[1:]) or 0 for name in names if name[:1] == "v"]
        if max(numbers, default=0) > newest:
            raise Refused(f"version {max(numbers)} is in the target, which is newer than version {newest} here")
        with contextlib.suppress(FileNotFoundError):
            pointer = self._pointer(parts)
            if not pointer.startswith(f"{VERSIONS}/{parts[-1]}/v"):
                raise Refused(f"a link to {pointer!a} stands where its pointer should be")
        return names

    def _pointer(self, parts: Parts) -> str:
        try:
            return self._rooted.link(parts)
        except FileNotFoundError:
            raise
        except OSError:
            raise Refused("a file or folder stands where its pointer should be") from None

    def _compare(self, parts: Parts, data: bytes) -> None:
        try:
            found = self._rooted.read(parts, limit=limits.STORED_VERSION).data
        except NotRegular as fault:
            raise Refused(f"{parts[-1]} is in the target, and {fault}") from None
        if found != data:
            raise Refused(f"{parts[-1]} is in the target with other bytes")

    def _write(self, inside: Parts, name: str, data: bytes, modified: int | None) -> None:
        with self._rooted.opened(inside) as folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_UNFINISHED, dir_fd=folder)
            file = os.open(_UNFINISHED, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder)
            with open(file, "wb") as sink:
                sink.write(data)
            if modified is not None:
                os.utime(_UNFINISHED, ns=(modified * 1_000_000,) * 2, dir_fd=folder, follow_symlinks=False)
            os.rename(_UNFINISHED, name, src_dir_fd=folder, dst_dir_fd=folder)

    def _point(self, parts: Parts, number: int) -> None:
        target = f"{VERSIONS}/{parts[-1]}/v{number}"
        with contextlib.suppress(FileNotFoundError):
            if self._pointer(parts) == target:
                return
        with self._rooted.opened(parts[:-1]) as folder:
            unfinished = f"{parts[-1]}.tmp" if len(os.fsencode(parts[-1])) < 252 else _UNFINISHED
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished, dir_fd=folder)
            os.symlink(target, unfinished, dir_fd=folder)
            os.rename(unfinished, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
