"""A plain folder: every `.md` file becomes the first version of a document.

Names that begin with a dot are passed over, except `.well-known`; links are not followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from demarkus_world.transfer.model import Candidate, Here, History, Refused, SourceError
from demarkus_world.transfer.report import Report
from demarkus_world.transfer.rooted import Kind, NotRegular, Parts, Rooted
from demarkus_world.transfer.runs import examined
from mark_protocol import limits
from mark_protocol.metadata import with_default_type
from mark_protocol.versions import encode_version

WELL_KNOWN = ".well-known"


class Folder:
    """A source."""

    name = "folder"
    counted = True

    def __init__(self, root: Path, report: Report) -> None:
        try:
            self._rooted = Rooted(root)
        except OSError as error:
            raise SourceError(f"{root}: {error.strerror}") from None
        self._report = report

    def close(self) -> None:
        """Let go of the folder."""
        self._rooted.close()

    async def candidates(self) -> AsyncIterator[Candidate]:
        """Every `.md` file, folder by folder."""
        folders: list[Parts] = [()]
        while folders:
            parts = folders.pop()
            try:
                names = await asyncio.to_thread(self._rooted.names, parts)
            except OSError as error:
                self._report.refuse("/" + "/".join(parts), f"it can't be read: {error.strerror}")
                continue
            below: list[Parts] = []
            for name in names:
                if name.name.startswith(".") and name.name != WELL_KNOWN:
                    self._report.ignored += 1
                elif name.kind is Kind.DIRECTORY:
                    below.append((*parts, name.name))
                elif not name.name.endswith(".md"):
                    self._report.ignored += 1
                elif name.kind is Kind.FILE:
                    yield _Document(self._rooted, (*parts, name.name))
                else:
                    self._report.refuse("/" + "/".join((*parts, name.name)), f"a {name.kind}; it is not followed")
            folders.extend(reversed(below))


@dataclass(frozen=True, slots=True)
class _Document:
    rooted: Rooted
    parts: Parts

    @property
    def path(self) -> str:
        return "/" + "/".join(self.parts)

    async def history(self, here: Here | None) -> History | None:
        """One version: the file's content as the body."""
        try:
            file = await asyncio.to_thread(self.rooted.read, self.parts, limit=limits.BODY)
        except NotRegular as fault:
            raise Refused(str(fault)) from None
        except OSError as error:
            raise Refused(f"it can't be read: {error.strerror}") from None
        stored = encode_version(1, None, with_default_type(self.path, {}), file.data)

        async def read(number: int) -> bytes:
            return stored

        # A folder knows nothing of archiving, so what is archived here stays so.
        archived = here.archived if here is not None else False
        return History(versions=[examined(stored, 1, modified=file.modified)], read=read, archived=archived)
