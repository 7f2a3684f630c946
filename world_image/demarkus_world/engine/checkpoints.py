"""Checkpoints: what the log adds up to at one entry, copied into the store so that nobody has to add it up again.

    checkpoints/<sequence>/<8 hex>-catalog-<n>   the catalog's file in pieces
    checkpoints/<sequence>/manifest.json         written last: names, sizes and hashes of the pieces, where the log was,
                                                 the note of that moment; signed with the world's key

A checkpoint is disposable. One that is not whole, not signed by this world or not of this log is passed over and never
believed; the newest few are kept.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from demarkus_base.blobs.port import OBJECT_LIMIT, BlobError, Blobs, Exists, Integrity, NotFound
from demarkus_base.tlog.tree import Edge
from demarkus_world.engine import canonical, keys, retry
from demarkus_world.engine.model import Identity
from demarkus_world.engine.notes import Note, NoteError, WorldKey, opened, origin, vouched
from demarkus_world.engine.parallel import in_parallel
from demarkus_world.engine.refusals import StoreDamaged
from demarkus_world.view.local import LocalView, tip_of
from demarkus_world.view.reads import Tip

SCHEMA = 1
KEPT = 3
PARTS_AT_ONCE = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of the catalog's file: the last segment of its key, its bytes' number and SHA-256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checkpoint: where the log was, and the pieces in order."""

    tip: Tip
    parts: Sequence[Part]


class Checkpoints:
    """The checkpoints of a store, written and believed in the name of its world's key."""

    def __init__(
        self,
        blobs: Blobs,
        identity: Identity,
        key: WorldKey,
        *,
        random: Callable[[int], bytes],
        pause: retry.Pause,
    ) -> None:
        self._blobs = blobs
        self._identity = identity
        self._key = key
        self._random = random
        self._pause = pause

    async def sequences(self) -> list[int]:
        """Where there are checkpoints, newest first. Raises Unavailable."""
        found = {keys.checkpoint_of(key) for key in await self._keys() if key.endswith(f"/{keys.MANIFEST}")}
        return sorted((sequence for sequence in found if sequence is not None), reverse=True)

    async def good(self, most: int) -> list[int]:
        """Where there are checkpoints to be believed, newest first, so many at most. Raises Unavailable."""
        found: list[int] = []
        for sequence in await self.sequences():
            if len(found) == most:
                break
            if await self.manifest(sequence) is not None:
                found.append(sequence)
        return found

    async def manifest(self, sequence: int) -> Manifest | None:
        """The manifest of a checkpoint; None, and a line in the log, for one not to be believed. Raises Unavailable."""
        key = keys.checkpoint(sequence, keys.MANIFEST)
        try:
            data = await retry.read(lambda: self._blobs.get(key), pause=self._pause)
            return decode(data, self._identity, self._key.public, name=key)
        except (NotFound, Integrity, StoreDamaged) as error:
            logger.warning("passing over a checkpoint: %s", error)
            return None

    async def fetch(self, manifest: Manifest, target: Path) -> None:
        """Write the catalog of a checkpoint to a file. Raises StoreDamaged, Unavailable, OSError."""
        with await asyncio.to_thread(target.open, "wb") as file:
            for start in range(0, len(manifest.parts), PARTS_AT_ONCE):
                page = manifest.parts[start : start + PARTS_AT_ONCE]

                async def get(part: Part) -> bytes:
                    return await self._part(manifest.tip.sequence, part)

                for data in await in_parallel(get, page):
                    await asyncio.to_thread(file.write, data)

    async def write(self, view: LocalView) -> int:
        """Make a checkpoint of what the view holds, and drop the oldest; its sequence.

        Raises BlobError, Unavailable, OSError, sqlite3.Error; what was written is then taken back.
        """
        written: list[str] = []
        try:
            with TemporaryDirectory(dir=view.directory, prefix="checkpoint-", ignore_cleanup_errors=True) as folder:
                copy = Path(folder) / "catalog.db"
                if view.directory is None:
                    view.copy(copy)
                else:
                    await asyncio.to_thread(view.copy, copy)
                tip = await asyncio.to_thread(tip_of, copy)
                nonce, parts, pieces = self._random(4).hex(), list[Part](), _pieces(copy)
                while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                    data, digest = piece
                    part = Part(f"{nonce}-catalog-{len(parts):04}", len(data), digest)
                    written.append(keys.checkpoint(tip.sequence, part.name))
                    await self._blobs.create(written[-1], data)
                    parts.append(part)
            manifest = encode(Manifest(tip, parts), self._identity, self._key)
            with suppress(Exists):  # another writer was first, with the same content
                await self._blobs.create(keys.checkpoint(tip.sequence, keys.MANIFEST), manifest)
        except BlobError as error:
            if not error.ambiguous or len(written) > len(parts):
                for key in written:
                    with suppress(BlobError):
                        await self._blobs.delete(key)
            raise
        await self.tidy()
        return tip.sequence

    async def tidy(self) -> None:
        """Delete what belongs to checkpoints older than the newest few. Raises BlobError, Unavailable."""
        kept = await self.good(KEPT)
        if len(kept) < KEPT:
            return
        gone = [key for key in await self._keys() if (keys.checkpoint_of(key) or 0) < kept[-1]]
        # The manifests first: what has none is no checkpoint.
        for key in sorted(gone, key=lambda key: not key.endswith(keys.MANIFEST)):
            with suppress(NotFound):
                await self._blobs.delete(key)

    async def _part(self, sequence: int, part: Part) -> bytes:
        key = keys.checkpoint(sequence, part.name)
        try:
            data = await retry.read(lambda: self._blobs.get(key), pause=self._pause)
        except (NotFound, Integrity) as error:
            raise StoreDamaged(f"{key}: {error}") from error
        digest = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
        if len(data) != part.size or digest != part.sha256:
            raise StoreDamaged(f"{key}: its bytes are not those of the manifest")
        return data

    async def _keys(self) -> list[str]:
        async def listed() -> list[str]:
            return [key async for key in self._blobs.list(keys.CHECKPOINTS)]

        return await retry.read(listed, pause=self._pause)


def encode(manifest: Manifest, identity: Identity, key: WorldKey) -> bytes:
    """The signed bytes of a manifest."""
    tip = manifest.tip
    value: dict[str, Any] = {
        "schema": SCHEMA,
        "history": identity.history,
        "incarnation": identity.incarnation,
        "sequence": tip.sequence,
        "first": tip.first,
        "tip": tip.slot,
        "time": tip.time,
        "edge": {"size": tip.edge.size, "hashes": [hashed.hex() for hashed in tip.edge.hashes]},
        "parts": [{"name": part.name, "size": part.size, "sha256": part.sha256} for part in manifest.parts],
        "note": key.note(identity, tip.edge),
    }
    return canonical.encode({**value, "signature": key.vouch(identity.history, canonical.encode(value))})


def decode(data: bytes, identity: Identity, key: Ed25519PublicKey, *, name: str) -> Manifest:
    """The manifest in the bytes read under a key. Raises StoreDamaged naming what is wrong with it."""
    try:
        value = canonical.decode(data)
        signature = value.pop("signature", "")
        if not vouched(identity.history, canonical.encode(value), str(signature), key):
            raise StoreDamaged(f"{name}: not signed with this world's key")
        expected = {"schema": SCHEMA, "history": identity.history, "incarnation": identity.incarnation}
        for field, wanted in expected.items():
            if value.get(field) != wanted:
                raise StoreDamaged(f"{name}: {field} is {value.get(field)!r}, expected {wanted!r}")
        edge = Edge(value["edge"]["size"], tuple(bytes.fromhex(hashed) for hashed in value["edge"]["hashes"]))
        note = Note(origin=origin(identity), size=edge.size, root=edge.root)
        if edge.size != value["sequence"] or opened(value["note"], identity.history, key) != note:
            raise StoreDamaged(f"{name}: its note is not that of its edge")
        return Manifest(
            Tip(sequence=value["sequence"], first=value["first"], slot=value["tip"], time=value["time"], edge=edge),
            [Part(part["name"], part["size"], part["sha256"]) for part in value["parts"]],
        )
    except (canonical.NotCanonical, NoteError, KeyError, TypeError, ValueError) as error:
        raise StoreDamaged(f"{name}: no manifest: {error}") from error


def _pieces(path: Path) -> Iterator[tuple[bytes, str]]:
    """A file in pieces that fit an object, each with its SHA-256."""
    with path.open("rb") as file:
        while data := file.read(OBJECT_LIMIT):
            yield data, hashlib.sha256(data).hexdigest()
