"""`python -m tests.load.run`: 64 clients and random requests at a world for ten minutes, while many things fail.

Traffic goes to a world process of its own on loopback and nowhere else. What is checked: every request is answered or
its stream is closed; nobody with the right to something is refused it; reloads come into force; the world's memory
stays within a tenth of what it was; its log tells of no failure; it ends when it is told to.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.conftest import WorldProcess, a_world
from tests.load import faults, lag, operations
from tests.load.account import Account
from tests.load.clients import Client, ask
from tests.load.memory import MIB
from tests.load.peer import End, connect
from tests.load.reloads import reload_certificate, reload_tokens, tokens

CLIENTS = 64
GROWTH, LEAST = 0.10, 8 * MIB
FILLING = 96
"""Documents of a MiB that are there first, and read: more than a world keeps in memory, so that caches are full."""
SOWN = 300.0
"""Seconds until all documents have to be there; what was too late for one request is asked for again."""
RESET = 0.01
"""Share of answers that the world may give up because their reader is too slow: clients share two cores with it."""
REQUEST_TIMEOUT = "5s"
EXPECTED_ERROR = "the last good one stays"
TOO_LATE = re.compile(r"^(not (done|committed) within|outcome unknown)")


def run(folder: Path, *, seconds: float, seed: int, pause: float, long: bool) -> Account:
    """Starts a world in `folder`, loads it for so long, and ends it. A `long` load is judged by figures, too."""
    world = a_world(
        folder,
        tokens=tokens(guest=False),
        reads="scoped",
        limits={"rate": {"perSecond": 0}, "requestTimeout": REQUEST_TIMEOUT},
    )
    world.start()
    try:
        account = asyncio.run(_Load(world, seed, pause, filling=FILLING if long else 0).go_on(seconds))
        if long and account.memory.grew(share=GROWTH, least=LEAST):
            account.wrong(f"memory grows: {account.memory}")
        if long and account.ends[End.RESET] > RESET * account.ends.total():
            account.wrong("the world reset answers that were read")
        if (status := world.stop()) != 0:
            account.wrong(f"the world ended with status {status}")
        for line in world.lines():
            if line["level"] == "error" and not _is_expected(line):
                account.wrong(f"its log: {line}")
        return account
    finally:
        world.end()


def _is_expected(line: dict[str, Any]) -> bool:
    """Whether it tells of a broken file, or of a request that came to no end in time and was told so."""
    return EXPECTED_ERROR in line["message"] or bool(TOO_LATE.search(line.get("fault", "")))


class _Load:
    def __init__(self, world: WorldProcess, seed: int, pause: float, *, filling: int) -> None:
        self._world = world
        self._filling = filling
        self._draw = random.Random(seed)
        self._pause = pause
        self._account = Account()
        self._end = asyncio.Event()

    async def go_on(self, seconds: float) -> Account:
        await self._sow()
        began = time.monotonic()
        clients = [
            Client(self._world.port, self._account, seed=self._draw.randrange(2**32), pause=self._pause, end=self._end)
            for _ in range(CLIENTS)
        ]
        port, account, draw = self._world.port, self._account, self._draw
        works: list[Awaitable[None]] = [
            *(client.run() for client in clients),
            *(self._again(1.0, lambda _: faults.stop_reading(port, account, draw)) for _ in range(4)),
            self._again(3.0, lambda _: faults.leave_half_open(port, account, draw)),
            self._again(1.0, lambda _: faults.stop_sending(port, account, draw)),
            self._again(2.0, lambda _: faults.reset_bodies(port, account, draw)),
            self._again(1.0, lambda number: reload_tokens(self._world, account, number)),
            self._again(2.0, lambda number: reload_certificate(self._world, account, number)),
            self._look(began, seconds),
        ]
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(_awaited(work))
        return account

    async def _sow(self) -> None:
        peer = await connect(self._world.port)
        assert peer is not None, "the world does not answer"
        end = time.monotonic() + SOWN
        for one in operations.seeds(self._draw, filling=self._filling):
            response = None
            while response is None or response.status not in ("created", "ok"):
                assert time.monotonic() < end, f"not all documents are there after {SOWN:.0f} s: {response}"
                response = await ask(peer, one.data)
        peer.leave()

    async def _again(self, pause: float, work: Callable[[int], Awaitable[None]]) -> None:
        number = 0
        while not self._end.is_set():
            number += 1
            await work(number)
            await _resting(self._end, pause)

    async def _look(self, began: float, seconds: float) -> None:
        """Takes samples, and says when it is over."""
        assert self._world.process is not None
        warm = None
        while (passed := time.monotonic() - began) < seconds:
            self._account.memory.take(self._world.process.pid)
            if self._world.process.poll() is not None:
                self._account.wrong("the world has ended")
                break
            if warm is None and passed >= seconds / 4:
                warm = await self._lag()
            await _resting(self._end, min(1.0, seconds / 20))
        late = await self._lag()
        self._account.lag = (lag.percentile(0.5, warm or {}, late), lag.percentile(0.99, warm or {}, late))
        self._end.set()

    async def _lag(self) -> lag.Buckets:
        return lag.buckets(await asyncio.to_thread(self._world.health, "/metrics"))


async def _awaited(work: Awaitable[None]) -> None:
    await work


async def _resting(end: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(end.wait(), seconds)
    except TimeoutError:
        return


def main() -> int:
    """0 if all holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.run", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--pause", type=float, default=1.5, help="seconds that a client rests between two rounds")
    options = parser.parse_args()
    print(f"{CLIENTS} clients for {options.seconds:.0f} s, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        account = run(
            Path(folder) / "world", seconds=options.seconds, seed=options.seed, pause=options.pause, long=True
        )
    print(account)
    return int(bool(account.problems))


if __name__ == "__main__":
    sys.exit(main())
