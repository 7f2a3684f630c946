"""Three writer processes, one bucket, faults of all kinds, processes that freeze: what clients were told is true.

`DEMARKUS_STRESS_SECONDS` says how long they write (`make test-stress`: 600; by default a short form).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from demarkus_base.blobs.gcs import Anonymous, GcsBlobs
from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine.engine import Engine
from demarkus_world.engine.entries import Entry
from demarkus_world.engine.notes import WorldKey
from demarkus_world.engine.restore.restore import Restored, restore
from demarkus_world.engine.verify.verify import Expected, Report, verify
from dev.gcs.faults import KINDS, Fault
from dev.gcs.process import StandIn, mix, started
from tests.stress.account import faults
from tests.stress.history import DAMAGED, NOTHING_DONE, operations
from tests.stress.linearizability import furthest
from tests.stress.register import Operation
from tests.stress.writer import BUCKET, CALL_TIMEOUT, IDENTITY, KEY, PATHS, hurry

SECONDS = float(os.environ.get("DEMARKUS_STRESS_SECONDS", "15"))
SEED = int(os.environ.get("DEMARKUS_STRESS_SEED", "20261201"))
WRITERS = 3
SHARE = 0.05
"""Of the calls meet a fault."""
STUCK = 0.005
"""Of the calls are answered when the caller has long given up, and done all the same."""
LONGEST_FREEZE = min(30.0, SECONDS / 4)
KILLS = 0.2
ANSWER = 60.0
ROOT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Writer:
    """A running writer process."""

    name: str
    history: Path
    log: Path
    process: subprocess.Popen[str]

    def say(self, line: str) -> None:
        """Tell it something."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self, what: str) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER)
        line = self.process.stdout.readline().strip() if ready else ""
        if not line and self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)  # it shows what it is doing
            time.sleep(1)
        assert line, f"waited {ANSWER:.0f} s for {self.name}: {what}; its log: {self.log.read_text()[-20000:]}"
        return line


def begun(stack: ExitStack, folder: Path, stand_in: StandIn, place: int, generation: int) -> Writer:
    """Start a writer and wait until it works; it ends with the stack. It takes over its predecessor's view."""
    name = f"w{place}.{generation}"
    history, log = folder / f"{name}.jsonl", folder / f"{name}.log"
    command = [sys.executable, "-m", "tests.stress.writer", "--service", stand_in.address, "--name", name]
    command += ["--history", str(history), "--view", str(folder / f"view-{place}"), "--seed", f"{SEED} {name}"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stack.enter_context(log.open("w")), text=True,
        cwd=ROOT,
    )  # fmt: skip
    stack.callback(_ended, process)
    writer = Writer(name, history, log, process)
    assert writer.hear("working") == "working"
    return writer


def _ended(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGCONT)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def trouble(writers: list[Writer], begin: Callable[[int], Writer], chance: random.Random) -> tuple[list[float], int]:
    """SIGSTOP a random writer for a random time, again and again, or SIGKILL it and begin another in its place.

    How long each time, and how many were killed.
    """
    end = time.monotonic() + SECONDS
    frozen: list[float] = []
    killed = 0
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, chance.uniform(0.5, max(1.0, LONGEST_FREEZE / 3))))
        left = end - time.monotonic()
        if left <= 0:
            break
        place = chance.randrange(WRITERS)
        writer = writers[place]
        assert writer.process.poll() is None, f"{writer.name} ended: {writer.log.read_text()[-4000:]}"
        if frozen and (not killed or chance.random() < KILLS):
            writer.process.kill()
            writer.process.wait()
            killed += 1
            writers[place] = begin(place)
            continue
        writer.process.send_signal(signal.SIGSTOP)
        frozen.append(min(left, chance.uniform(0.2, LONGEST_FREEZE)))
        time.sleep(frozen[-1])
        writer.process.send_signal(signal.SIGCONT)
    return frozen, killed


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with started(BUCKET, seed=SEED) as running:
        yield running


async def a_newcomer(stand_in: StandIn, key: WorldKey | None) -> tuple[str, int, list[Entry]]:
    """A cold start without any fault: digest, sequence and every entry; all chains are checked, and the whole store.

    With a key it begins with a checkpoint, without one with the bundles.
    """
    blobs = GcsBlobs.open(f"gs://{BUCKET}/world", service=stand_in.address, authorization=Anonymous())
    engine = await Engine.open(blobs, IDENTITY, now=lambda: time.time_ns() // 1_000_000, random=os.urandom, key=key)
    try:
        view = await engine.view(exact=True)
        for path in PATHS:
            if view.head(path) is not None:
                report = await engine.check_chain(path)
                assert report.valid, report.fault
        verified = await verify(blobs, Expected(history=IDENTITY.history), pause=asyncio.sleep)
        assert verified.intact, verified.findings
        entries = [entry async for page in engine._log.entries_from(1) for entry in page]
        return engine._log.view.digest(), view.sequence, entries
    finally:
        await engine.close()
        await blobs.close()


async def restored_elsewhere(stand_in: StandIn) -> tuple[Restored, Report]:
    """What the writers left, restored into another store; and the verification of that."""
    blobs = GcsBlobs.open(f"gs://{BUCKET}/world", service=stand_in.address, authorization=Anonymous())
    target = MemoryBlobs()
    try:
        made = await restore(
            blobs, target, now=lambda: time.time_ns() // 1_000_000, random=os.urandom, by="local:kettle"
        )
        return made, await verify(target, Expected(history=IDENTITY.history), pause=asyncio.sleep)
    finally:
        await blobs.close()


def test_three_writers_on_a_bad_day(
    tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    with ExitStack() as stack:
        generations = count()
        histories: list[Path] = []

        def begin(place: int) -> Writer:
            writer = begun(stack, tmp_path, stand_in, place, next(generations))
            histories.append(writer.history)
            return writer

        writers = [begin(place) for place in range(WRITERS)]
        stand_in.fail(*mix(SHARE - STUCK), Fault(kind="slow", chance=STUCK, seconds=1.5 * CALL_TIMEOUT))
        frozen, killed = trouble(writers, begin, chance)
        for writer in writers:
            writer.say("stop")
        for writer in writers:
            assert writer.hear("stopped") == "stopped"
        calls, struck = stand_in.counts()
        stand_in.fail()
        told: list[dict[str, Any]] = []
        for writer in writers:
            writer.say("tell")
            told.append(json.loads(writer.hear("its digest")))
        hurry(monkeypatch.setattr)
        from_checkpoint = asyncio.run(a_newcomer(stand_in, KEY))
        digest, sequence, entries = from_bundles = asyncio.run(a_newcomer(stand_in, None))
        whole, copied = asyncio.run(restored_elsewhere(stand_in))
        names = Counter(name.split("/")[1] for name in stand_in.names(BUCKET))

    history = list(operations(histories))
    judged = [operation for operation in history if operation.outcome != NOTHING_DONE]
    figures: dict[str, Any] = {
        "seconds": SECONDS,
        "operations": len(history),
        "outcomes": dict(Counter(operation.outcome for operation in history)),
        "entries": sequence,
        "slots": sum(one["slots"] for one in told),
        "slots lost to another": sum(one["lost"] for one in told),
        "objects": dict(names),
        "calls": calls,
        "faults": struck,
        "swept": dict(sum((Counter(one["swept"]) for one in told), Counter())),
        "killed": killed,
        "freezes": len(frozen),
        "longest freeze": round(max(frozen, default=0.0), 1),
    }
    with capsys.disabled():
        print(f"\n{json.dumps(figures)}")

    assert DAMAGED not in figures["outcomes"], "\n".join(writer.log.read_text()[-2000:] for writer in writers)
    assert DAMAGED not in figures["swept"]
    assert [one["fault"] for one in told] == [None] * WRITERS
    assert {(one["sequence"], one["digest"]) for one in told} == {(sequence, digest)}, "replicas and a newcomer agree"
    assert from_checkpoint == from_bundles
    assert (whole.size, whole.lost, copied.entries) == (sequence, 0, sequence + 1), "a restore brings all of it over"
    assert copied.intact, copied.findings
    assert faults(entries, judged) == []
    by_path: dict[str, list[Operation]] = {path: [] for path in PATHS}
    for operation in judged:
        by_path[operation.path].append(operation)
    for path, operations_of_path in by_path.items():
        definite = sum(not operation.unknown for operation in operations_of_path)
        placed, state = furthest(operations_of_path)
        assert placed == definite, f"{path}: {placed} of {definite} operations can be put in order, up to {state}"
    assert figures["slots lost to another"] > 0, "the writers met"
    assert set(struck) == set(KINDS), "faults of all kinds struck"
    assert frozen
    assert killed
    assert figures["swept"]["deleted"], "blobs really went"
    assert names["bundles"], "bundles were made meanwhile"
    assert names["checkpoints"], "and checkpoints"
