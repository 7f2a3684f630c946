"""The crash matrix of a restore: every blob call of the target fails in every way, and the restore is run again.

Before it is finished nobody can open the target, and nothing of the source changes. The same restore finishes it, and
then it is what an undisturbed restore makes: the same history as the same child of the same parent.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import BlobError, Blobs, Permanent
from demarkus_base.blobs.port import StoreFull as BlobsFull
from demarkus_world.engine import bundles, identity, keys, slots
from demarkus_world.engine.engine import Engine, StoreFull, StoreUnfinished, Unavailable, Write
from demarkus_world.engine.model import Prune
from demarkus_world.engine.notes import WorldKey
from demarkus_world.engine.restore.restore import Restored, Witness, restore
from demarkus_world.engine.restore.survey import Until
from demarkus_world.engine.verify.verify import Expected, verify
from tests.engine.failing import Failing, Failure
from tests.engine.test_crash_matrix import until_dead

KEY = WorldKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
SURVIVED = (Failure.ERROR, Failure.OPEN_NOT_DONE, Failure.OPEN_DONE, Failure.OPEN_LATE)
AWrite = Callable[..., Write]

WANTED: dict[str, Mapping[str, Any]] = {
    "everything": {},
    "up to an entry inside a slot": {"until": Until(sequence=6)},
    "with a witness that knows of more": {"until": Until(sequence=4), "witness": True},
}


async def a_source(start: Any, a_write: AWrite) -> tuple[MemoryBlobs, str]:
    """A group commit of entries 4 to 7 among slots of one entry, some of them bundled; a prune; the newest note."""
    blobs = MemoryBlobs()
    engine: Engine = await start(blobs, key=KEY)
    for body in (b"one", b"two"):
        await engine.write(a_write(body=body))
    await engine.write(a_write("archive"))
    await engine.write_all([a_write(path=f"/deep/{number}.md") for number in range(4)])
    await engine.write(a_write("unarchive"))
    await engine.write(Prune(path="/a.md", keep=1, by="local:ann"))
    copied = [await blobs.get(keys.slot(first)) for first in (1, 2, 3)]
    bundle, data = bundles.encode(engine.identity.history, copied)
    await blobs.create(bundle.key, data)
    return blobs, await engine.note()


async def objects(blobs: MemoryBlobs) -> dict[str, bytes]:
    return {key: await blobs.get(key) async for key in blobs.list("")}


@pytest.mark.parametrize("failure", Failure)
@pytest.mark.parametrize("name", WANTED)
async def test_an_interrupted_restore_is_finished_by_the_same_one(
    start: Callable[..., Awaitable[Engine]],
    a_write: AWrite,
    clock: Any,
    pause: Any,
    state: Any,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    failure: Failure,
) -> None:
    monkeypatch.setattr(bundles, "LEAST", 2)
    monkeypatch.setattr(bundles, "MOST", 3)
    source, note = await a_source(start, a_write)
    origin = await objects(source)
    given = dict(WANTED[name])
    if given.pop("witness", False):
        given["witness"] = Witness(text=note, key=KEY.public)

    async def run(target: Blobs, seed: str) -> Restored:
        calls = iter(range(10**6))

        def random(size: int) -> bytes:
            return hashlib.sha256(f"{seed} {next(calls)}".encode()).digest()[:size]

        return await restore(source, target, now=clock, random=random, pause=pause, **given)

    whole = MemoryBlobs()
    made = await run(whole, "undisturbed")
    expected = await state(await start(whole))
    contents = {key: data for key, data in (await objects(whole)).items() if key.startswith(("docs/", "bundles/"))}
    finishing = keys.slot(made.size + 1)

    seen: set[str] = set()
    at = 1
    while True:
        target = MemoryBlobs()
        failing = Failing(target, failure, at)
        outcome = await until_dead(run(failing, "first"), failing)
        if not failing.failed:
            break
        seen.add(outcome)
        there = await objects(target)
        if keys.WORLD in there and finishing not in there:
            with pytest.raises(StoreUnfinished):
                await start(target)
            assert await objects(target) == there, f"call {at}: whoever can't open a store leaves it alone"
        drawn = identity.decode(there[keys.WORLD]) if keys.WORLD in there else None
        if failure is not Failure.DEATH_LATE:
            await failing.settle()
        second = Failing(target, Failure.ERROR, 0)
        again = await run(second, "second")
        await failing.settle()
        assert drawn is None or again.identity == drawn, f"call {at}: {outcome}; it goes on as the same incarnation"
        assert (again.size, again.root, again.lost) == (made.size, made.root, made.lost)
        found = await objects(target)
        assert {key: data for key, data in found.items() if key in contents} == contents
        assert found.keys() == (await objects(whole)).keys(), f"call {at}: {outcome}; nothing is left over"
        assert found[keys.RESTORE] == found[finishing]
        entry = slots.read(found[finishing], key=finishing).entries[0]
        assert (entry.parent, entry.root, entry.lost) == (again.identity.parent, made.root, made.lost)
        assert await state(await start(target)) == expected, f"call {at}: {outcome}"
        report = await verify(target, Expected(key=KEY.public), pause=pause)
        assert report.intact, (at, outcome, [finding.text for finding in report.findings])
        at += 1
    assert at > 10, "a restore makes calls"
    assert await objects(source) == origin, "the source is only read"
    if failure in SURVIVED:
        assert seen == {"done"}, "one such failure is survived"


@pytest.mark.parametrize(
    ("refusal", "error"), [(BlobsFull("full"), StoreFull), (Permanent("no permission"), Unavailable)]
)
async def test_what_the_target_refuses_is_told(
    start: Any, a_write: AWrite, clock: Any, pause: Any, refusal: BlobError, error: type[Exception]
) -> None:
    class Refusing(MemoryBlobs):
        async def create(self, key: str, data: bytes) -> None:
            if key.startswith(keys.DOCS):
                raise refusal
            await super().create(key, data)

    source, _ = await a_source(start, a_write)
    with pytest.raises(error, match=r"run (the restore|it) again"):
        await restore(source, Refusing(), now=clock, random=lambda size: b"r" * size, pause=pause)
