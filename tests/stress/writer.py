"""One writer process: an engine on the shared bucket, and clients that do random things with it until told to stop.

`python -m tests.stress.writer --service URL --history FILE --view FOLDER --name w0 --seed 1`

Standard input takes `stop` (answer what is under way, then say `stopped`) and `tell` (one JSON line: digest, sequence,
figures). Its end ends the process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_base.blobs.gcs import Anonymous, GcsBlobs
from demarkus_base.blobs.hedged import HedgedBlobs
from demarkus_world.engine import bundles, log, upkeep
from demarkus_world.engine.engine import (
    DocumentArchived,
    DocumentMissing,
    Engine,
    EngineError,
    Identity,
    OutcomeUnknown,
    StoreDamaged,
    VersionConflict,
    Write,
)
from demarkus_world.engine.model import Prune
from demarkus_world.engine.notes import WorldKey
from demarkus_world.engine.sweep import Sweeper
from tests.stress.history import DAMAGED, NOTHING_DONE

BUCKET = "stress"
IDENTITY = Identity("a" * 32, "b" * 32)
# No path lies on the way to another one, so that each is a register of its own.
PATHS = tuple(f"/{folder}/{name}.md" for folder in ("tea", "coffee", "water") for name in ("a", "b", "c", "d"))
CLIENTS = 4
LARGE = 2000
CALL_TIMEOUT = 2.0
WRITE_TIMEOUT = 4.0
READ_TIMEOUT = 6.0
IMPATIENCE = 0.05
"""How many writes are given up early, so that nobody knows what became of them."""
GRACE_MS = 1000
SWEEP_EVERY = 3.0
OPS = {"publish": 35, "append": 15, "archive": 5, "unarchive": 10, "prune": 5, "read": 30}
KEY = WorldKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))


@dataclass(slots=True)
class Client:
    """Does one thing after the other, and writes down what it asked for and what it was told."""

    name: str
    engine: Engine
    chance: random.Random
    file: TextIO
    done: int = 0

    async def act(self) -> None:
        """One operation."""
        self.done += 1
        path, word = self.chance.choice(PATHS), self.chance.choices([*OPS], [*OPS.values()])[0]
        request: dict[str, Any] = {"name": f"{self.name}-{self.done}", "op": word, "path": path}
        if word in ("publish", "append"):
            known = await self._known(path)
            if known is None:
                return
            version, size = known
            if word == "append" and size > LARGE:
                request["op"] = word = "publish"
            request["text"] = request["name"] + "\n"
            if word == "append" or self.chance.random() < 0.5:
                request["expected"] = version
            if word == "publish" and self.chance.random() < 0.1:
                request["retention"] = self.chance.randint(1, 5)
        if word == "prune":
            request["keep"] = self.chance.randint(1, 5)
        self._note({**request, "called": time.monotonic_ns()})
        answer = await self._ask(request)
        if answer is not None:
            self._note({"name": request["name"], **answer, "ended": time.monotonic_ns()})

    async def _known(self, path: str) -> tuple[int, int] | None:
        """Version and size of a document, perhaps a moment old."""
        try:
            head = (await self.engine.view(exact=False)).head(path)
        except EngineError:
            return None
        return (head.record.version, head.record.size) if head else (0, 0)

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """What was told; None for an outcome that nobody knows."""
        path = request["path"]
        try:
            if request["op"] == "read":
                async with asyncio.timeout(READ_TIMEOUT):
                    return await self._read(path)
            retention = request.get("retention")
            impatient = self.chance.random() < IMPATIENCE
            timeout = self.chance.uniform(0, 0.05) if impatient else WRITE_TIMEOUT
            if request["op"] == "prune":
                prune = Prune(path=path, keep=request["keep"], by=self.name)
                pruned = await self.engine.write(prune, timeout=timeout)
                return {"outcome": pruned.outcome, "version": pruned.version}
            write = Write(
                op=request["op"],
                path=path,
                body=request.get("text", "").encode(),
                metadata={"retention": str(retention)} if retention else {},
                expected=request.get("expected"),
                by=self.name,
                credential="token",
            )
            written = await self.engine.write(write, timeout=timeout)
            return {"outcome": written.outcome, "version": written.version}
        except OutcomeUnknown:
            return None
        except VersionConflict as conflict:
            return {"outcome": "conflict", "version": conflict.current}
        except DocumentArchived:
            return {"outcome": "closed"}
        except DocumentMissing:
            return {"outcome": "missing"}
        except StoreDamaged as damage:
            print(f"{request['name']}: {damage}", file=sys.stderr, flush=True)
            return {"outcome": DAMAGED}
        except (EngineError, TimeoutError):
            return {"outcome": NOTHING_DONE}

    async def _read(self, path: str) -> dict[str, Any]:
        view = await self.engine.view(exact=True)
        head = view.head(path)
        if head is None:
            return {"outcome": "seen", "version": 0}
        told = {
            "outcome": "seen",
            "version": head.record.version,
            "first": view.versions(path)[0].version,
            "archived": head.archived,
            "body": head.record.body_hash,
        }
        if self.chance.random() < 0.2:
            await self.engine.stored(head.record)
        return told

    def _note(self, record: dict[str, Any]) -> None:
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()


async def work(client: Client, stop: asyncio.Event, pause: float) -> None:
    """Act until told to stop."""
    while not stop.is_set():
        await client.act()
        await asyncio.sleep(pause * client.chance.random())


async def keep_sweeping(sweeper: Sweeper, stop: asyncio.Event, counts: Counter[str]) -> None:
    """Sweep again and again, with hardly any grace, beside everybody else who does."""
    while not stop.is_set():
        try:
            swept = await sweeper.sweep()
            counts.update(marked=swept.found, deleted=swept.deleted, sweeps=1)
        except StoreDamaged:
            counts.update(damaged=1)
        except EngineError:
            counts.update(failed=1)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), SWEEP_EVERY)


async def write(options: argparse.Namespace) -> None:
    """Open, work, stop, tell."""
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line.strip())
        loop.call_soon_threadsafe(lines.put_nowait, "end")

    loop.add_signal_handler(signal.SIGUSR1, show_tasks)
    # A daemon: it does not keep a process from ending that has something to say.
    threading.Thread(target=listen, daemon=True).start()
    gcs = GcsBlobs.open(
        f"gs://{BUCKET}/world", service=options.service, authorization=Anonymous(), timeout=CALL_TIMEOUT
    )
    blobs = HedgedBlobs(gcs, clock=time.monotonic, count=lambda _: None)
    engine = await opened(blobs, options.view)
    stop = asyncio.Event()
    with options.history.open("a") as file:
        clients = [
            Client(f"{options.name}-{number}", engine, random.Random(f"{options.seed} {number}"), file)
            for number in range(CLIENTS)
        ]
        working = [asyncio.create_task(work(client, stop, options.pause)) for client in clients]
        swept: Counter[str] = Counter()
        sweeper = Sweeper(blobs, engine, now=now, grace=lambda: GRACE_MS)
        working.append(asyncio.create_task(keep_sweeping(sweeper, stop, swept)))
        print("working", flush=True)
        while (line := await lines.get()) != "end":
            if line == "stop":
                stop.set()
                await asyncio.gather(*working)
                print("stopped", flush=True)
            elif line == "tell":
                print(json.dumps(await tell(engine, swept)), flush=True)
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
    await engine.close()
    await blobs.close()


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def show_tasks() -> None:
    """What every task waits for, on standard error."""
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stderr)
    sys.stderr.flush()


async def opened(blobs: Any, view: Path) -> Engine:
    """The engine, as soon as the bucket lets it open."""
    while True:
        try:
            return await Engine.open(blobs, IDENTITY, now=now, random=os.urandom, view=view, key=KEY)
        except EngineError as error:
            print(f"can't open yet: {error}", file=sys.stderr, flush=True)
            await asyncio.sleep(0.2)


async def tell(engine: Engine, swept: Counter[str]) -> dict[str, Any]:
    """What this replica holds, up to date."""
    view = await engine.view(exact=True)
    statistics = engine.statistics
    return {
        "digest": await asyncio.to_thread(engine._log.view.digest),
        "sequence": view.sequence,
        "slots": statistics.slots,
        "entries": statistics.entries,
        "lost": statistics.lost,
        "fault": engine.fault,
        "swept": dict(swept),
    }


def hurry(put: Callable[[object, str, float], None] = setattr) -> None:
    """Let bundles and checkpoints come as often in minutes as they do in months."""
    put(bundles, "LEAST", 64)
    put(log, "WORTH_A_CHECKPOINT", 256)
    put(upkeep, "CHECKPOINT_ENTRIES", 256)
    put(upkeep, "JITTER", 1.0)
    put(upkeep, "LOOK", 2.0)


def main() -> None:
    """Read the arguments and write."""
    hurry()
    parser = argparse.ArgumentParser(prog="python -m tests.stress.writer")
    parser.add_argument("--service", required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--view", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two operations of a client, at most")
    asyncio.run(write(parser.parse_args()))


if __name__ == "__main__":
    main()
