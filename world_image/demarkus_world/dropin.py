"""A world without a configuration file: one folder, served as a Go server would serve it (Mark protocol 1.2).

    <root>/...                 documents of a Go server, never changed
    <root>/world/              the store
    <root>/world.view/         what is kept of the store to answer from
    <root>/world.import/       the store while it is filled; it becomes world/ when everything has come over
    <root>/world-dev.crt       the certificate of this start, where none is named, and its key, world-dev.key

An import that is killed is taken up by the next start: only a whole one is ever served.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import shutil
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_world.engine import identity as marker
from demarkus_world.engine import keys
from demarkus_world.engine.engine import Engine, Identity
from demarkus_world.settings import HostPort, Settings, SettingsError, parse_settings
from demarkus_world.stores import FOLDER, RESERVE, VIEW
from demarkus_world.transfer import progress
from demarkus_world.transfer.gotree import GoTree
from demarkus_world.transfer.importing import Import
from demarkus_world.transfer.report import Report
from mark_protocol.transport.certificates import self_signed

FILLING = "world.import"
BESIDE = "world.view"
CERTIFICATE, KEY = "world-dev.crt", "world-dev.key"
OURS = frozenset({FOLDER, RESERVE, FILLING, BESIDE, CERTIFICATE, KEY, "control.sock"})

RENEWED_EVERY = 12 * 3600.0
"""Seconds; the certificate lives for 24 hours."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line and the variables of the Go server say. None = the default of the configuration."""

    root: Path
    port: int = 6309
    host: str = "::"
    health: str = "127.0.0.1:0"
    tokens: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    read_only: bool = False
    max_streams: int | None = None
    max_watches: int | None = None
    idle_timeout: str | None = None
    request_timeout: str | None = None
    rate_limit: float | None = None
    rate_burst: int | None = None
    log_format: Literal["json", "text"] = "text"
    log_level: str = "info"


def settings(wanted: Wanted, *, identity: Identity) -> Settings:
    """The configuration that this is. Raises SettingsError."""
    root = wanted.root
    limits = {
        "maxStreams": wanted.max_streams,
        "maxWatches": wanted.max_watches,
        "idleTimeout": wanted.idle_timeout,
        "requestTimeout": wanted.request_timeout,
        "rate": _given({"perSecond": wanted.rate_limit, "burst": wanted.rate_burst}),
    }
    document = {
        "name": "world",
        "identity": {"history": identity.history, "incarnation": identity.incarnation},
        "store": {"directory": str(root)},
        "view": {"directory": str(root / BESIDE)},
        "reads": "public",
        "history": "compatible",
        "readOnly": wanted.read_only,
        "limits": _given(limits),
        "listen": {"mark": str(HostPort(wanted.host, wanted.port)), "health": wanted.health},
        "tls": {
            "certificate": str(wanted.tls_cert or root / CERTIFICATE),
            "key": str(wanted.tls_key or root / KEY),
        },
        "tokens": [str(wanted.tokens)] if wanted.tokens else [],
        "log": {"level": wanted.log_level, "format": wanted.log_format},
    }
    return parse_settings(json.dumps(document).encode(), source="serve --root")


def check(wanted: Wanted) -> None:
    """Raise SettingsError for what has to be there and is not, before anything is written."""
    root = wanted.root
    if not root.is_dir():
        raise SettingsError([f"--root {root}: it does not exist or is no directory"])
    if wanted.tokens is not None and not wanted.tokens.is_file():
        # Without the file, what its read tokens protect would be open to everybody.
        raise SettingsError([f"--tokens {wanted.tokens}: there is no such file"])
    settings(wanted, identity=Identity("0" * 32, "0" * 32))
    if not _is_store(root):
        for name in (FOLDER, RESERVE):
            if any((root / name).rglob("*.md")):
                raise SettingsError([f"--root {root}: {name}/ holds documents, and the store needs this name: move it"])


async def prepare(wanted: Wanted, *, by: str) -> Identity:
    """Make the folder one that can be served: a store, filled from the Go tree if it is new, and a certificate.

    `by` is who does it, as the log names them. Raises what the store raises when it can't be opened.
    """
    root = wanted.root
    if not _is_store(root):
        await _fill(root, by=by)
    await asyncio.to_thread(shutil.rmtree, root / FILLING, ignore_errors=True)
    if wanted.tls_cert is None:
        await asyncio.to_thread(_make_certificate, root)
    return marker.decode((root / FOLDER / keys.WORLD).read_bytes())


async def renew(wanted: Wanted) -> None:
    """Make the certificate anew before it expires, for ever, where none is named."""
    while wanted.tls_cert is None:
        await asyncio.sleep(RENEWED_EVERY)
        await asyncio.to_thread(_make_certificate, wanted.root)


def _is_store(mount: Path) -> bool:
    return (mount / FOLDER / keys.WORLD).is_file()


async def _fill(root: Path, *, by: str) -> None:
    """A new store with everything that the Go tree has, under its own name when it is whole."""
    filling = root / FILLING
    report = Report()
    blobs = await DirectoryBlobs.open(filling / FOLDER)
    try:
        engine = await Engine.open(
            blobs,
            _identity(filling),
            now=lambda: time.time_ns() // 1_000_000,
            random=secrets.token_bytes,
            compatible=True,
            view=filling / VIEW,
        )
        try:
            with closing(GoTree(root, report, without=OURS)) as tree:
                work = Import(engine, tree, report, by=by, compatible=True)
                async with progress.shown(lambda: _state(work, report), sys.stderr):
                    await work.run()
        finally:
            await engine.close()
        await asyncio.to_thread(_publish, filling / FOLDER, root / FOLDER)
    finally:
        await blobs.close()
    if report.versions or report.refused:
        for sentence in report.sentences():
            logger.log(logging.ERROR if sentence.startswith("refused") else logging.INFO, "%s: %s", root, sentence)


def _identity(mount: Path) -> Identity:
    """That of an import that was killed, or a new one."""
    if _is_store(mount):
        return marker.decode((mount / FOLDER / keys.WORLD).read_bytes())
    return Identity(secrets.token_hex(16), secrets.token_hex(16))


def _state(work: Import, report: Report) -> progress.State:
    return progress.State(
        verb="importing", done=work.looked_at, total=work.total, versions=report.versions, refused=report.refused
    )


def _publish(store: Path, name: Path) -> None:
    if name.is_dir():
        name.rmdir()  # an empty one, from a start that failed; `check` has looked
    store.rename(name)
    _sync(name.parent)


def _make_certificate(root: Path) -> None:
    made = self_signed(now=datetime.now(UTC))
    for name, data, mode in ((KEY, made.key_pem, 0o600), (CERTIFICATE, made.chain_pem, 0o644)):
        fresh = root / f"{name}.new"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(data)
        fresh.rename(root / name)


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
