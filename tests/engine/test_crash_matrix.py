"""The crash matrix: every operation, with every one of its blob calls failing in every way (A11.2 to 4).

After the failure the store is opened anew. What is there is the state before the operation or the one after it (after
one of its steps, if it has several), nothing else; what was acknowledged is there; what was refused as not done is not.
And whatever the failure left behind, the next sweep takes away, and nothing else.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import BlobError, Blobs
from demarkus_world.engine import bundles, keys, log
from demarkus_world.engine.checkpoints import Checkpoints
from demarkus_world.engine.engine import Engine, EngineError, OutcomeUnknown, VersionConflict, Write, WriteRefused
from demarkus_world.engine.model import Adopt, Prune, Settle, Verdict
from demarkus_world.engine.notes import WorldKey
from demarkus_world.engine.reader import Reader
from demarkus_world.engine.sweep import Sweeper
from demarkus_world.engine.upkeep import Upkeep
from demarkus_world.policy import PROPOSALS
from mark_protocol.versions import encode_version
from tests.engine.failing import Failing, Failure

AWrite = Callable[..., Write]
Step = Callable[["Process"], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Process:
    """What an operation has to do with."""

    engine: Engine
    blobs: Blobs
    a_write: AWrite
    clock: Callable[[], int]
    pause: Any

    @property
    def sweeper(self) -> Sweeper:
        return Sweeper(self.blobs, self.engine, now=self.clock, grace=lambda: 0, pause=self.pause)


@dataclass(frozen=True, slots=True)
class Operation:
    """Steps one after the other, each of which makes one entry or none.

    `told`: whether "not done" says that nothing of it is in the log.
    """

    steps: tuple[Step, ...]
    told: bool = True


def write(**given: Any) -> Operation:
    async def step(process: Process) -> None:
        await process.engine.write(process.a_write(**given))

    return Operation((step,))


async def prune(process: Process) -> None:
    await process.engine.write(Prune(path="/a.md", keep=1, by="local:ann"))


async def prune_to_erase(process: Process) -> None:
    await process.engine.write(Prune(path="/a.md", keep=1, erase=True, by="local:ann"))


async def erase(process: Process) -> None:
    await process.sweeper.erase("/a.md", by="local:ann")


async def sweep(process: Process) -> None:
    await process.sweeper.sweep()


async def bundle(process: Process) -> None:
    await upkeep(process)._bundle()


async def checkpoint(process: Process) -> None:
    await checkpoints(process.engine, process.blobs, process.pause).write(process.engine._log.view)


def checkpoints(engine: Engine, blobs: Blobs, pause: Any) -> Checkpoints:
    return Checkpoints(blobs, engine.identity, KEY, random=bytes, pause=pause)


def upkeep(process: Process) -> Upkeep:
    """The upkeep of the process, which waits for nobody, because its random numbers are 0."""
    reader = Reader(process.blobs, history=process.engine.identity.history, pause=process.pause)
    return Upkeep(
        blobs=process.blobs,
        log=process.engine._log,
        reader=reader,
        checkpoints=None,
        history=process.engine.identity.history,
        now=process.clock,
        random=bytes,
    )


def adopt(**given: Any) -> Operation:
    async def step(process: Process) -> None:
        await process.engine.write(Adopt(modified=1_600_000_000_000, by="local:ann", **given))

    return Operation((step,))


ELSEWHERE = encode_version(4, "c" * 64, {"type": "note"}, b"from elsewhere\n")

VERDICTS: tuple[Verdict, Verdict] = ("accept", "reject")
PROPOSAL = f"{PROPOSALS}/one.md"
ACCEPT, REJECT = (Settle(path=PROPOSAL, verdict=verdict, by="ann", credential="token") for verdict in VERDICTS)


async def reject(process: Process) -> None:
    await process.engine.write(REJECT)


# On /a.md with versions 1 to 3, /old.md, which is archived, a proposal, and blobs that nothing refers to.
OPERATIONS: dict[str, Operation] = {
    "a new document": write(path="/new/b.md", expected=0),
    "a new version": write(body=b"four", expected=3),
    "an unconditional version": write(body=b"four"),
    "a version with retention": write(body=b"four", metadata={"retention": "2"}),
    "an append": write(op="append", body=b"four", expected=3),
    "an archive": write(op="archive"),
    "an unarchive": write(op="unarchive", path="/old.md"),
    "an unchanged publish": write(body=b"three"),
    "a repeated archive": write(op="archive", path="/old.md"),
    "a conflict": write(body=b"x", expected=1),
    "an adopted version": adopt(path="/there/c.md", number=4, stored=ELSEWHERE),
    "an adopted and archived version": adopt(path="/there/c.md", number=4, stored=ELSEWHERE, archived=True),
    "a seed": write(op="seed", path="/seed.md", expected=0),
    "a proposal": write(op="propose", path=f"{PROPOSALS}/two.md", expected=0),
    "an accepted proposal": write(body=b"four", expected=3, accepts=ACCEPT),
    "an accepted proposal that prunes": write(body=b"four", metadata={"retention": "2"}, accepts=ACCEPT),
    "an accepted proposal of what is there": write(body=b"three", accepts=ACCEPT),
    "a rejected proposal": Operation((reject,)),
    "a prune": Operation((prune,)),
    "a prune that erases": Operation((prune_to_erase, erase), told=False),
    "a sweep": Operation((sweep,), told=False),
    "a bundle": Operation((bundle,)),
    "a checkpoint": Operation((checkpoint,)),
    "a bundle and a checkpoint": Operation((bundle, checkpoint)),
}
KEY = WorldKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
UPKEEP = ("a bundle", "a checkpoint", "a bundle and a checkpoint")
SURVIVED = (Failure.ERROR, Failure.OPEN_NOT_DONE, Failure.OPEN_DONE, Failure.OPEN_LATE)


def copy(blobs: MemoryBlobs) -> MemoryBlobs:
    twin = MemoryBlobs()
    twin._objects, twin._keys = dict(blobs._objects), list(blobs._keys)
    return twin


async def a_store(start: Any, a_write: AWrite) -> MemoryBlobs:
    blobs = MemoryBlobs()
    engine = await start(blobs)
    for body in (b"one", b"two", b"three"):
        await engine.write(a_write(body=body))
    await engine.write(a_write(path="/old.md"))
    await engine.write(a_write("archive", path="/old.md"))
    await engine.write(a_write("propose", path=PROPOSAL))
    for path, version in (("/a.md", 2), ("/nowhere.md", 1)):
        await blobs.create(keys.blob(path, version, "0" * 64, "deadbeef"), b"left by a writer that died")
    return blobs


async def until_dead(work: Awaitable[Any], failing: Failing) -> str:
    """Let it work, or as much of it as the process lives to see: done, refused, not done, unknown or dead."""
    working = asyncio.ensure_future(work)
    dying = asyncio.create_task(failing.dead.wait())
    await asyncio.wait({working, dying}, return_when=asyncio.FIRST_COMPLETED)
    dying.cancel()
    if not working.done():
        working.cancel()
        await asyncio.wait({working})
        return "dead"
    error = working.exception()
    if error is None:
        return "done"
    if isinstance(error, OutcomeUnknown):
        return "unknown"
    assert isinstance(error, (EngineError, BlobError)), error
    return "refused" if isinstance(error, WriteRefused) else "not done"


async def blobs_and_those_needed(blobs: MemoryBlobs, engine: Engine) -> tuple[set[str], set[str]]:
    view = await engine.view(exact=True)
    there = {key async for key in blobs.list("docs/")}
    paths = {version.path for key in there if (version := keys.version_of(key))}
    return there, {record.blob for path in paths for record in view.versions(path)}


@pytest.mark.parametrize("failure", Failure)
@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_interrupted_operation_happened_or_did_not(
    start: Any,
    a_write: AWrite,
    clock: Any,
    pause: Any,
    state: Any,
    killed: Any,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    failure: Failure,
) -> None:
    operation = OPERATIONS[name]
    if name in UPKEEP:  # elsewhere it would begin by itself
        monkeypatch.setattr(bundles, "LEAST", 4)
        monkeypatch.setattr(log, "WORTH_A_CHECKPOINT", 1)

    def a_process(engine: Engine, blobs: Blobs) -> Process:
        return Process(engine, blobs, a_write, clock, pause)

    async def carry_out(process: Process) -> None:
        for step in operation.steps:
            await step(process)

    origin = await a_store(start, a_write)
    whole = copy(origin)
    legal = [await state(await start(copy(origin)))]
    for step in operation.steps:
        with contextlib.suppress(VersionConflict):
            await step(a_process(await start(whole), whole))
        legal.append(await state(await start(whole)))

    seen: set[str] = set()
    at = 1
    while True:
        blobs = copy(origin)
        failing = Failing(blobs, failure, 10**9)
        engine = await start(failing)
        failing.fail_in(at)
        outcome = await until_dead(carry_out(a_process(engine, failing)), failing)
        if not failing.failed:
            break
        seen.add(outcome)
        await killed(engine)
        if failure is not Failure.DEATH_LATE:
            await failing.settle()
        reopened = await start(blobs, key=KEY)
        await failing.settle()
        found = await state(reopened)
        assert found in legal, f"call {at}: {outcome}, and the state is none of the legal ones"
        if outcome in ("done", "refused"):
            assert found == legal[-1], f"call {at}: {outcome}, and it is not there"
        if outcome == "not done" and operation.told:
            assert found == legal[0], f"call {at}: not done, and it is there"
        await a_process(reopened, blobs).sweeper.sweep()
        there, needed = await blobs_and_those_needed(blobs, reopened)
        assert there == needed, f"call {at}: {outcome}; after a sweep there is what is needed and nothing else"
        assert {**await state(reopened), "sequence": 0} == {**found, "sequence": 0}, f"call {at}: the sweep changed it"
        at += 1
    assert at > 1, "the operation makes calls"
    if failure in SURVIVED and name not in UPKEEP:  # upkeep is tried again later
        assert seen <= {"done", "refused"}, "one such failure is survived"
