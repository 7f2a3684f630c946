"""Checkpoints as a verification sees them: signed by the world, about this very log, with all their parts.

A world passes over one that is not whole or not signed by it, so an altered one does no harm; it tells that somebody
was there. One that is signed is a witness: what it says of the log has to be so.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from demarkus_base.blobs.port import Blobs, Integrity, NotFound
from demarkus_world.engine import checkpoints, keys, retry
from demarkus_world.engine.checkpoints import Manifest, Part
from demarkus_world.engine.model import Identity
from demarkus_world.engine.refusals import StoreDamaged
from demarkus_world.engine.verify.findings import Fault, Finding
from demarkus_world.engine.verify.replay import Mark, Replay


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A checkpoint that this world signed, and the key of its manifest."""

    key: str
    manifest: Manifest

    @property
    def sequence(self) -> int:
        return self.manifest.tip.sequence


class Snapshots:
    """Reads checkpoints; what is wrong with them is in `findings`."""

    def __init__(self, blobs: Blobs, identity: Identity, key: Ed25519PublicKey, *, pause: retry.Pause) -> None:
        self.findings: list[Finding] = []
        self._blobs = blobs
        self._identity = identity
        self._key = key
        self._pause = pause

    async def signed(self) -> list[Snapshot]:
        """Every checkpoint that is this world's. Raises Unavailable, BlobError."""
        found: list[Snapshot] = []
        async for key in self._blobs.list(keys.CHECKPOINTS):
            sequence = keys.checkpoint_of(key)
            if sequence is None or key != keys.checkpoint(sequence, keys.MANIFEST):
                continue
            data = await self._get(key)
            if data is None:
                continue  # tidied away
            try:
                snapshot = Snapshot(key, checkpoints.decode(data, self._identity, self._key, name=key))
                if snapshot.sequence != sequence:
                    raise StoreDamaged(f"{key}: it is of entry {snapshot.sequence}")
            except StoreDamaged as error:
                self._find(Fault.CHECKPOINT, key, f"a checkpoint was altered, or another wrote it: {error}")
                continue
            found.append(snapshot)
        return found

    async def check(self, found: Sequence[Snapshot], replay: Replay) -> None:
        """Compare them with the log, and their parts with what they say. Raises Unavailable."""
        for snapshot in found:
            self._compare(snapshot, replay)
            for part in snapshot.manifest.parts:
                fault = await self._part_fault(snapshot, part)
                if fault is not None and await self._get(snapshot.key) is not None:
                    key = keys.checkpoint(snapshot.sequence, part.name)
                    self._find(Fault.CHECKPOINT, key, f"a checkpoint was altered after it was written: {key} {fault}")

    def _compare(self, snapshot: Snapshot, replay: Replay) -> None:
        sequence, tip = snapshot.sequence, snapshot.manifest.tip
        if sequence > replay.sequence:
            text = (
                f"the log ends with entry {replay.sequence}, though the world signed a checkpoint of entry {sequence}: "
                "the newest entries were dropped, or the store was put back to an earlier state"
            )
            self._find(Fault.LOG_SHORTER, snapshot.key, text, entry=replay.sequence + 1)
            return
        mark = replay.at.get(sequence, Mark(None, None, None))
        if mark.edge is not None and (mark.edge != tip.edge or mark.slot_hash != tip.slot):
            text = (
                f"the first {sequence} entries are not those of which the world signed a checkpoint: the history was "
                f"rewritten at or before entry {sequence}"
            )
            self._find(Fault.FORKED, snapshot.key, text, entry=sequence, field="edge")

    async def _part_fault(self, snapshot: Snapshot, part: Part) -> str | None:
        data = await self._get(keys.checkpoint(snapshot.sequence, part.name))
        if data is None:
            return "is missing"
        digest = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
        return None if digest == part.sha256 and len(data) == part.size else "is not what the manifest says"

    async def _get(self, key: str) -> bytes | None:
        try:
            return await retry.read(lambda: self._blobs.get(key), pause=self._pause)
        except NotFound:
            return None
        except Integrity as error:
            return str(error).encode()  # neither a manifest nor a part of that hash

    def _find(self, fault: Fault, key: str, text: str, *, entry: int | None = None, field: str | None = None) -> None:
        self.findings.append(Finding(fault=fault, object=key, text=text, entry=entry, field=field))
