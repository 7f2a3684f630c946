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
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demarkus_base.blobs.gcs import Anonymous, GcsBlobs
from demarkus_world.engine.engine import Engine
from demarkus_world.engine.entries import Entry
from dev.gcs.process import StandIn, mix, started
from tests.stress.account import faults
from tests.stress.history import NOTHING_DONE, operations
from tests.stress.linearizability import furthest
from tests.stress.register import Operation
from tests.stress.writer import BUCKET, IDENTITY, PATHS

SECONDS = float(os.environ.get("DEMARKUS_STRESS_SECONDS", "15"))
SEED = int(os.environ.get("DEMARKUS_STRESS_SEED", "20261201"))
WRITERS = 3
SHARE = 0.05
LONGEST_FREEZE = min(30.0, SECONDS / 4)
ANSWER = 120.0
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
        assert line, f"waited {ANSWER:.0f} s for {self.name}: {what}; its log: {self.log.read_text()[-4000:]}"
        return line


def begun(stack: ExitStack, folder: Path, stand_in: StandIn, name: str) -> Writer:
    """Start a writer; it ends with the stack."""
    history, log = folder / f"{name}.jsonl", folder / f"{name}.log"
    command = [sys.executable, "-m", "tests.stress.writer", "--service", stand_in.address, "--name", name]
    command += ["--history", str(history), "--view", str(folder / f"{name}.view"), "--seed", f"{SEED} {name}"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stack.enter_context(log.open("w")), text=True,
        cwd=ROOT,
    )  # fmt: skip
    stack.callback(_ended, process)
    return Writer(name, history, log, process)


def _ended(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGCONT)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def freeze_one_after_the_other(writers: list[Writer], chance: random.Random, seconds: float) -> list[float]:
    """SIGSTOP a random writer for a random time, again and again; how long each time."""
    end = time.monotonic() + seconds
    frozen: list[float] = []
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, chance.uniform(0.5, max(1.0, LONGEST_FREEZE / 3))))
        left = end - time.monotonic()
        if left <= 0:
            break
        writer = chance.choice(writers)
        assert writer.process.poll() is None, f"{writer.name} ended: {writer.log.read_text()[-4000:]}"
        writer.process.send_signal(signal.SIGSTOP)
        frozen.append(min(left, chance.uniform(0.2, LONGEST_FREEZE)))
        time.sleep(frozen[-1])
        writer.process.send_signal(signal.SIGCONT)
    return frozen


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with started(BUCKET, seed=SEED) as running:
        yield running


async def a_newcomer(stand_in: StandIn) -> tuple[str, int, list[Entry]]:
    """A cold start without any fault: digest, sequence and every entry; all chains are checked."""
    blobs = GcsBlobs.open(f"gs://{BUCKET}/world", service=stand_in.address, authorization=Anonymous())
    engine = await Engine.open(blobs, IDENTITY, now=lambda: time.time_ns() // 1_000_000, random=os.urandom)
    try:
        view = await engine.view(exact=True)
        for path in PATHS:
            if view.head(path) is not None:
                report = await engine.check_chain(path)
                assert report.valid, report.fault
        entries = [entry async for page in engine._log.entries_from(1) for entry in page]
        return engine._log.view.digest(), view.sequence, entries
    finally:
        await engine.close()
        await blobs.close()


def test_three_writers_on_a_bad_day(tmp_path: Path, stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(SEED)
    with ExitStack() as stack:
        writers = [begun(stack, tmp_path, stand_in, f"w{number}") for number in range(WRITERS)]
        for writer in writers:
            assert writer.hear("working") == "working"
        stand_in.fail(*mix(SHARE))
        frozen = freeze_one_after_the_other(writers, chance, SECONDS)
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
        digest, sequence, entries = asyncio.run(a_newcomer(stand_in))

    history = list(operations(writer.history for writer in writers))
    judged = [operation for operation in history if operation.outcome != NOTHING_DONE]
    figures = {
        "seconds": SECONDS,
        "operations": len(history),
        "outcomes": dict(Counter(operation.outcome for operation in history)),
        "entries": sequence,
        "slots": sum(one["slots"] for one in told),
        "slots lost to another": sum(one["lost"] for one in told),
        "calls": calls,
        "faults": struck,
        "freezes": len(frozen),
        "longest freeze": round(max(frozen, default=0.0), 1),
    }
    with capsys.disabled():
        print(f"\n{json.dumps(figures)}")

    assert [one["fault"] for one in told] == [None] * WRITERS
    assert {(one["sequence"], one["digest"]) for one in told} == {(sequence, digest)}, "replicas and a newcomer agree"
    assert faults(entries, judged) == []
    by_path: dict[str, list[Operation]] = {path: [] for path in PATHS}
    for operation in judged:
        by_path[operation.path].append(operation)
    for path, operations_of_path in by_path.items():
        definite = sum(not operation.unknown for operation in operations_of_path)
        placed, state = furthest(operations_of_path)
        assert placed == definite, f"{path}: {placed} of {definite} operations can be put in order, up to {state}"
    assert figures["slots lost to another"] > 0, "the writers met"
    assert set(struck) == {fault.kind for fault in mix(SHARE)}, "faults of all kinds struck"
    assert frozen
