"""Which source is meant, and how it is opened."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from demarkus_world.transfer.folder import Folder
from demarkus_world.transfer.git import Git
from demarkus_world.transfer.gotree import VERSIONS, GoTree
from demarkus_world.transfer.model import Source, SourceError
from demarkus_world.transfer.report import Report
from demarkus_world.transfer.wire import Wire
from mark_protocol.client.client import MarkClient
from mark_protocol.client.pool import Pool
from mark_protocol.transport.port import Trust
from mark_protocol.urls import URLError, parse_url

SCHEME = "mark://"
LOOKED_AT = 10_000
"""Folders that are looked at to tell a Go server's tree from a plain folder."""


class Kind(StrEnum):
    """What a source is."""

    GO_TREE = "go-tree"
    SERVER = "server"
    GIT = "git"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A source as somebody names it; `place` is a URL or a folder, `kind` None = to be seen."""

    place: str
    kind: Kind | None = None
    revision: str = "HEAD"
    token: str | None = None
    trust: Trust = field(default_factory=Trust)
    timeout: float = 30.0


@asynccontextmanager
async def source(wanted: Wanted, report: Report) -> AsyncIterator[Source]:
    """The source, opened. Raises SourceError."""
    kind = wanted.kind or seen(wanted.place)
    if (kind is Kind.SERVER) != wanted.place.startswith(SCHEME):
        raise SourceError(f"{wanted.place}: a server is named as {SCHEME}host[:port], anything else by its folder")
    folder = Path(wanted.place)
    match kind:
        case Kind.SERVER:
            try:
                url = parse_url(wanted.place)
            except URLError as error:
                raise SourceError(f"{wanted.place}: {error}") from None
            pool = Pool([(url.host, url.port)], server_name=url.server_name, trust=wanted.trust, size=4, streams=8)
            try:
                yield Wire(MarkClient(pool, auth=wanted.token, timeout=wanted.timeout), report, start=url.path)
            finally:
                await pool.close()
        case Kind.GIT:
            repository = Git(folder, report, revision=wanted.revision)
            try:
                yield repository
            finally:
                await repository.close()
        case Kind.GO_TREE:
            with closing(GoTree(folder, report)) as tree:
                yield tree
        case Kind.FOLDER:
            with closing(Folder(folder, report)) as plain:
                yield plain


def seen(place: str) -> Kind:
    """What a place looks like."""
    if place.startswith(SCHEME):
        return Kind.SERVER
    folder = Path(place)
    if (folder / ".git").exists() or all((folder / name).exists() for name in ("HEAD", "objects", "refs")):
        return Kind.GIT
    walk = itertools.islice(os.walk(folder, followlinks=False), LOOKED_AT)
    return Kind.GO_TREE if any(VERSIONS in below for _, below, _ in walk) else Kind.FOLDER
