"""The tree of a Go server (Mark protocol 7.4), read without changing anything in it.

    docs/guide.md                          symbolic link to versions/guide.md/v3
    docs/versions/guide.md/v1 v2 v3        the layout of today
    docs/versions/guide.md/archive-state   `true` or `false`, where there was an archive transition
    docs/versions/guide.md.v1              the layout of old; where both have a version, today's wins

Links are read, never followed. What a server leaves behind when it dies (`guide.md.tmp`, `.archive-state-*`) and its
journal `.changes` are passed over; so is a plain file without versions, which is no document.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from demarkus_world.transfer.model import Candidate, Here, History, Refused, SourceError, Version
from demarkus_world.transfer.report import Report
from demarkus_world.transfer.rooted import Kind, Name, NotRegular, Parts, Rooted
from demarkus_world.transfer.runs import examined
from mark_protocol import limits
from mark_protocol.numbers import parse_go_integer

VERSIONS = "versions"
ARCHIVE_STATE = "archive-state"
STATES = {b"true\n": True, b"false\n": False}

_LEGACY = re.compile(r"(?s)(.+)\.v([+-]?[0-9]+)")
_LEFTOVERS = re.compile(r"(?s)\.changes|.*\.tmp|\.archive-state-.*")
_DEEPEST = 512


class GoTree:
    """A source. `root` is the server's content root; names in it that are not the server's can be left out."""

    name = "Go tree"
    counted = True

    def __init__(self, root: Path, report: Report, *, without: frozenset[str] = frozenset()) -> None:
        try:
            self._rooted = Rooted(root)
        except OSError as error:
            raise SourceError(f"{root}: {error.strerror}") from None
        self._report = report
        self._without = without

    def close(self) -> None:
        """Let go of the tree."""
        self._rooted.close()

    async def candidates(self) -> AsyncIterator[Candidate]:
        """Every path with versions, folder by folder; oddities on the way go into the report."""
        folders: list[Parts] = [()]
        while folders:
            parts = folders.pop()
            found, below = await asyncio.to_thread(self._folder, parts)
            for document in found:
                yield document
            folders.extend(reversed(below))

    def _folder(self, parts: Parts) -> tuple[list[_Document], list[Parts]]:
        """The documents whose pointers lie in a folder, and the folders below it."""
        try:
            left_out = frozenset() if parts else self._without
            names = {name.name: name.kind for name in self._rooted.names(parts) if name.name not in left_out}
            documents = self._with_versions(parts, names)
        except OSError as error:
            self._report.refuse(_path(parts), f"it can't be read: {error.strerror}")
            return [], []
        below: list[Parts] = []
        for name, kind in names.items():
            if kind is Kind.DIRECTORY:
                if len(parts) < _DEEPEST:
                    below.append((*parts, name))
                else:
                    self._report.refuse(_path((*parts, name)), f"it lies more than {_DEEPEST} folders deep")
            elif name in documents or _LEFTOVERS.fullmatch(name):
                continue
            elif kind is Kind.LINK:
                leads = self._rooted.link((*parts, name))
                self._report.refuse(
                    _path((*parts, name)), f"a symbolic link without versions, to {leads!a}; it is not followed"
                )
            elif VERSIONS not in parts:
                self._report.ignored += 1
        return [documents[name] for name in sorted(documents)], below

    def _with_versions(self, parts: Parts, names: dict[str, Kind]) -> dict[str, _Document]:
        if names.get(VERSIONS) is not Kind.DIRECTORY:
            return {}
        documents: dict[str, _Document] = {}

        def document(name: str) -> _Document:
            return documents.setdefault(name, _Document(self._rooted, parts, name, names.get(name), self._report))

        for found in self._rooted.names((*parts, VERSIONS)):
            legacy = _LEGACY.fullmatch(found.name)
            if found.kind is Kind.DIRECTORY:
                if self._has_versions((*parts, VERSIONS, found.name)):
                    document(found.name).current_layout = True
            elif found.kind is not Kind.FILE or legacy is None or found.name.startswith("."):
                continue
            elif (parse_go_integer(legacy[2]) or 0) >= 1:
                document(legacy[1]).legacy.append(found.name)
        return documents

    def _has_versions(self, parts: Parts) -> bool:
        """Whether a folder holds versions; one that can't be read may, and its document says so."""
        try:
            return any(_number(name) for name in self._rooted.names(parts))
        except OSError:
            return True


@dataclass(slots=True)
class _Document:
    """A path with stored versions in one layout or both. `pointer` is what its own name stands for."""

    rooted: Rooted
    parts: Parts
    name: str
    pointer: Kind | None
    report: Report
    current_layout: bool = False
    legacy: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        return _path((*self.parts, self.name))

    async def history(self, here: Here | None) -> History | None:
        """All its versions, each read and examined, whatever is here already."""
        return await asyncio.to_thread(self._history)

    def _history(self) -> History:
        try:
            files = self._files()
            versions = [self._examined(number, files[number]) for number in sorted(files)]
            archived = self._archived()
            current = self._current(versions, files)
        except OSError as error:
            raise Refused(f"it can't be read: {error.strerror}") from None

        async def read(number: int) -> bytes:
            return (await asyncio.to_thread(self.rooted.read, files[number], limit=limits.STORED_VERSION)).data

        return History(versions=versions, read=read, current=current, archived=archived)

    def _files(self) -> dict[int, Parts]:
        """The file of every version; of several for one number the canonical name of today's layout wins."""
        files: dict[int, Parts] = {}
        for number, name, parts in self._found():
            if number not in files:
                files[number] = parts
            elif files[number] != parts:
                self.report.note(self.path, f"{name!a} is another file for version {number}; the canonical one counts")
        return files

    def _found(self) -> Iterator[tuple[int, str, Parts]]:
        folder = (*self.parts, VERSIONS)
        if self.current_layout:
            inside = (*folder, self.name)
            names = self.rooted.names(inside)
            numbered = [(number, found.name) for found in names if (number := _number(found))]
            for number, name in sorted(numbered, key=lambda pair: (pair[0], pair[1] != f"v{pair[0]}", pair[1])):
                yield number, name, (*inside, name)
        numbered = [(parse_go_integer(name[len(self.name) + 2 :]) or 0, name) for name in self.legacy]
        for number, name in sorted(numbered, key=lambda pair: (pair[0], pair[1] != f"{self.name}.v{pair[0]}", pair[1])):
            yield number, name, (*folder, name)

    def _examined(self, number: int, parts: Parts) -> Version:
        try:
            file = self.rooted.read(parts, limit=limits.STORED_VERSION)
        except NotRegular as fault:
            return Version(number=number, fault=str(fault))
        except OSError as error:
            return Version(number=number, fault=f"it can't be read: {error.strerror}")
        return examined(file.data, number, modified=file.modified)

    def _archived(self) -> bool | None:
        """What the state file says; None where there is none. Anything else in it refuses the document."""
        if not self.current_layout:
            return None
        try:
            content = self.rooted.read((*self.parts, VERSIONS, self.name, ARCHIVE_STATE), limit=16).data
        except FileNotFoundError:
            return None
        except NotRegular as fault:
            raise Refused(f"its {ARCHIVE_STATE} can't be trusted: {fault}") from None
        if content not in STATES:
            raise Refused(
                f"its {ARCHIVE_STATE} says neither true nor false, so it can't be told whether it is archived"
            )
        return STATES[content]

    def _current(self, versions: list[Version], files: dict[int, Parts]) -> int | None:
        """The number its pointer leads to."""
        match self.pointer:
            case None:
                self.report.note(self.path, "its pointer is missing; its highest version counts")
                return None
            case Kind.LINK:
                return self._pointed_to()
            case Kind.FILE:
                # Copied by a tool that follows links: the newest version stands in the pointer's place.
                try:
                    copy = self.rooted.read((*self.parts, self.name), limit=limits.STORED_VERSION).data
                    newest = self.rooted.read(files[versions[-1].number], limit=limits.STORED_VERSION).data
                except NotRegular as fault:
                    raise Refused(f"a plain file stands where its pointer should be: {fault}") from None
                if copy != newest:
                    raise Refused("a plain file that is not its newest version stands where its pointer should be")
                return None
            case _:
                raise Refused(f"a {self.pointer} stands where its pointer should be")

    def _pointed_to(self) -> int:
        target = self.rooted.link((*self.parts, self.name))
        for prefix in (f"{VERSIONS}/{self.name}/v", f"{VERSIONS}/{self.name}.v"):
            number = parse_go_integer(target.removeprefix(prefix)) if target.startswith(prefix) else None
            if number is not None and number >= 1:
                return number
        raise Refused(f"its pointer leads to {target!a}, which is none of its versions; it is not followed")


def _number(found: Name) -> int | None:
    """The number of a version file `v<int>`; only regular files are versions."""
    if found.kind is not Kind.FILE or found.name[:1] != "v":
        return None
    number = parse_go_integer(found.name[1:])
    return number if number is not None and 1 <= number <= limits.VERSION_NUMBER else None


def _path(parts: Parts) -> str:
    return "/" + "/".join(parts)
