"""Whatever worlds do, a verification of what they leave behind finds nothing: no false alarm, whatever the history.

Each history is drawn from a seed: publishes, appends, archives, prunes by key and by command, imports, sweeps with and
without grace, several writers, writers that die with their blobs staged, bundles, checkpoints, and notes on the way.
Now and then the world goes on in a restored store: with all of its history or up to an entry or a time, from the store
as it is or from an older copy, after a restore that broke off; and again later. All stores are verified in the end.
`DEMARKUS_HISTORIES=1000` (make test-histories) draws more of them.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Blobs, Exists
from demarkus_world.engine import bundles, keys
from demarkus_world.engine.checkpoints import Checkpoints
from demarkus_world.engine.engine import (
    Engine,
    EngineError,
    Identity,
    StoreDamaged,
    StoreUnfinished,
    Unavailable,
    Write,
)
from demarkus_world.engine.model import Adopt, Prune
from demarkus_world.engine.notes import WorldKey, opened
from demarkus_world.engine.refusals import RestoreRefused
from demarkus_world.engine.restore.restore import ALL, Witness, restore
from demarkus_world.engine.restore.survey import Until
from demarkus_world.engine.sweep import Sweeper
from demarkus_world.engine.verify.verify import Expected, verify
from mark_protocol.versions import encode_version
from tests.engine.failing import Failing, Failure

OURS = Identity("a" * 32, "b" * 32)
KEY = WorldKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
START = 1_790_000_000_000
PATHS = ("/a.md", "/b.md", "/deep/c.md", "/deep/er/d.md", "/deep", "/e\tf.md", "/.well-known/g.md")
STEPS = 40
BATCH = 25
HISTORIES = int(os.environ.get("DEMARKUS_HISTORIES", "100"))


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


class Life:
    """One history: a store, the writers that have it open, and what was noted of it."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.blobs = MemoryBlobs()
        self.now = START
        self.writers: list[Engine] = []
        self.notes: list[tuple[str, str]] = []
        self.older: MemoryBlobs | None = None
        self.left: list[tuple[MemoryBlobs, list[tuple[str, str]]]] = []
        self.done: dict[str, int] = {}

    async def live(self) -> None:
        for _ in range(STEPS):
            self.now += self.draw.choice((0, 0, 1, 1000, 3_600_000))
            if not self.writers or (len(self.writers) < 3 and self.draw.random() < 0.05):
                await self.open()
            step = self.draw.choices(
                (
                    self.write,
                    self.burst,
                    self.prune,
                    self.adopt,
                    self.sweep,
                    self.note,
                    self.bundle,
                    self.checkpoint,
                    self.close,
                    self.kill,
                    self.copy,
                    self.restore,
                ),
                (50, 8, 8, 5, 6, 8, 5, 3, 3, 3, 3, 4),
            )[0]
            try:
                await step(self.draw.choice(self.writers))
                self.done[step.__name__] = self.done.get(step.__name__, 0) + 1
            except EngineError:
                pass  # refused: nothing happened
        for writer in self.writers:
            await writer.close()
        if self.draw.random() < 0.5:
            await self.unlink()
        self.left.append((self.blobs, self.notes))

    async def open(self, blobs: MemoryBlobs | None = None) -> None:
        self.writers.append(
            await Engine.open(
                blobs or self.blobs,
                OURS,
                now=lambda: self.now,
                random=self.draw.randbytes,
                pause=no_pause,
                key=KEY,
                compatible=True,
            )
        )

    def a_write(self) -> Write:
        op = self.draw.choices(("publish", "append", "archive", "unarchive"), (60, 20, 10, 10))[0]
        metadata: dict[str, str] = {}
        if op == "publish" and self.draw.random() < 0.2:
            metadata["retention"] = str(self.draw.randint(1, 3))
        body = self.draw.randbytes(self.draw.randint(0, 3)).hex().encode() if op in ("publish", "append") else b""
        expected = self.draw.randint(1, 4) if op == "append" else None
        return Write(
            op=op,  # type: ignore[arg-type]
            path=self.draw.choice(PATHS),
            body=body,
            metadata=metadata,
            expected=expected,
            by="kettle",
            credential="token",
        )

    async def write(self, engine: Engine) -> None:
        await engine.write(self.a_write())

    async def burst(self, engine: Engine) -> None:
        """Several writers at once: whole batches, lost races, prunes in the same slot."""
        writes = [self.draw.choice(self.writers).write(self.a_write()) for _ in range(self.draw.randint(2, 12))]
        await asyncio.gather(*writes, return_exceptions=True)

    async def prune(self, engine: Engine) -> None:
        erase = self.draw.random() < 0.3
        await engine.write(
            Prune(path=self.draw.choice(PATHS), keep=self.draw.randint(1, 3), erase=erase, by="local:kettle")
        )

    async def adopt(self, engine: Engine) -> None:
        path = self.draw.choice((*PATHS, f"/imported-{self.draw.randint(1, 3)}.md"))
        view = await engine.view(exact=True)
        head = view.head(path)
        number = head.record.version + 1 if head else self.draw.choice((1, 1, 5))
        previous = head.record.etag if head else None if number == 1 else "9" * 64
        modified = max(head.record.modified if head else 0, self.now - 86_400_000)
        stored = encode_version(number, previous, {"type": "note"}, self.draw.randbytes(2).hex().encode())
        archived = self.draw.random() < 0.2
        await engine.write(
            Adopt(path=path, number=number, stored=stored, modified=modified, archived=archived, by="local:kettle")
        )

    async def sweep(self, engine: Engine) -> None:
        grace = self.draw.choice((0, 1000, 86_400_000))
        sweeper = Sweeper(self.blobs, engine, now=lambda: self.now, grace=lambda: grace, pause=no_pause)
        if self.draw.random() < 0.3:
            await sweeper.erase(self.draw.choice(PATHS), by="local:kettle")
        else:
            await sweeper.sweep()

    async def note(self, engine: Engine) -> None:
        self.notes.append((f"note {len(self.notes)}", await engine.note()))

    async def bundle(self, engine: Engine) -> None:
        """Copy some slots that follow one another into a bundle, as upkeep does, or again as another process may."""
        names = [name async for name in self.blobs.list(keys.LOG)]
        first = self.draw.randrange(len(names)) if names else 0
        copied = [await self.blobs.get(name) for name in names[first : first + self.draw.randint(1, 12)]]
        if copied:
            bundle, data = bundles.encode(OURS.history, copied)
            with contextlib.suppress(Exists):
                await self.blobs.create(bundle.key, data)

    async def checkpoint(self, engine: Engine) -> None:
        view: Any = await engine.view(exact=True)
        if view.sequence:
            checkpoints = Checkpoints(self.blobs, engine.identity, KEY, random=self.draw.randbytes, pause=no_pause)
            await checkpoints.write(view)

    async def copy(self, engine: Engine) -> None:
        """Keep a copy of the store as it is now, as a snapshot of a volume is one."""
        self.older = MemoryBlobs()
        async for key in self.blobs.list(""):
            await self.older.create(key, await self.blobs.get(key))

    async def restore(self, engine: Engine) -> None:
        """Go on in a store that is restored from this one or from the older copy; this one is left as it is.

        Who restores from a copy has to say what is known to have been written since: else the notes of that time are
        an alarm, and a right one.
        """
        note = await engine.note()
        source, copied = self.blobs, self.older is not None and self.draw.random() < 0.4
        if copied and self.older is not None:
            source = self.older
        last = opened(note, OURS.history, KEY.public).size
        until = self.draw.choice(
            (ALL, ALL, Until(sequence=self.draw.randint(1, last + 1)), Until(time=self.draw.randint(START, self.now)))
        )
        witness = Witness(text=note, key=KEY.public) if copied or self.draw.random() < 0.5 else None
        target = MemoryBlobs()

        async def run(into: Blobs) -> None:
            await restore(
                source,
                into,
                now=lambda: self.now,
                random=self.draw.randbytes,
                until=until,
                witness=witness,
                pause=no_pause,
            )

        try:
            if self.draw.random() < 0.3:
                await self.break_off(run, target)
            await run(target)
        except StoreDamaged as error:
            raise AssertionError("a store of a legal history can be restored") from error
        except RestoreRefused:
            assert not [key async for key in target.list("")], "what is refused is refused before anything is made"
            raise
        for writer in self.writers:
            await writer.close()
        self.left.append((self.blobs, list(self.notes)))
        self.blobs, self.writers, self.older = target, [], None
        self.notes.append((f"note {len(self.notes)}", note))

    async def break_off(self, run: Callable[[Blobs], Awaitable[None]], target: MemoryBlobs) -> None:
        """Begin a restore and let the store refuse it in the middle; nobody can open what there is then."""
        with contextlib.suppress(Unavailable):
            await run(Failing(target, Failure.REFUSED, self.draw.randint(3, 30)))
            return
        if any([key async for key in target.list(keys.WORLD)]):
            with pytest.raises(StoreUnfinished):
                await self.open(target)

    async def unlink(self) -> None:
        """Delete slots of which a bundle has a copy, as the writer of a volume does."""
        found = await bundles.listed(self.blobs, pause=no_pause)
        async for name in self.blobs.list(keys.LOG):
            first = keys.first_of(name) or 0
            if any(bundle.first <= first <= bundle.last for bundle in found) and self.draw.random() < 0.8:
                await self.blobs.delete(name)

    async def close(self, engine: Engine) -> None:
        self.writers.remove(engine)
        await engine.close()

    async def kill(self, engine: Engine) -> None:
        """End a writer in the middle of a write: what it staged stays."""
        self.writers.remove(engine)
        writing = asyncio.gather(*(engine.write(self.a_write()) for _ in range(3)), return_exceptions=True)
        for _ in range(self.draw.randint(0, 12)):
            await asyncio.sleep(0)
        closing = asyncio.create_task(engine.close())
        await asyncio.sleep(0)
        closing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await closing
        await writing


def batches() -> list[Any]:
    starts = range(0, HISTORIES, BATCH)
    return [pytest.param(start, min(start + BATCH, HISTORIES), id=f"seeds from {start}") for start in starts]


@pytest.mark.parametrize(("first", "end"), batches())
async def test_a_legal_history_raises_no_alarm(first: int, end: int) -> None:
    done: dict[str, int] = {}
    for seed in range(first, end):
        life = Life(seed)
        async with asyncio.timeout(60):
            await life.live()
            for blobs, notes in life.left:
                expected = Expected(history=OURS.history, key=KEY.public, witnessed=notes)
                report = await verify(blobs, expected, pause=no_pause)
                assert report.intact, (seed, [finding.text for finding in report.findings])
                assert not report.unchecked, seed
        for step, times in life.done.items():
            done[step] = done.get(step, 0) + times
    assert len(done) == 12, f"some steps never succeeded in {end - first} histories: {done}"
