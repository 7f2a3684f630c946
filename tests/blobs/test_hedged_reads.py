"""Hedged reads: when a second request is sent, who wins, and that the budget holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from demarkus_base.blobs.hedged import BANK, FIRST_DELAY, LONGEST, SHORTEST, WINDOW, Budget, HedgedBlobs, Patience
from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import NotFound, Unavailable


class Scripted(MemoryBlobs):
    """Each read does what its turn says: wait for the event, fail, or answer."""

    def __init__(self, *turns: asyncio.Event | Exception | None) -> None:
        super().__init__()
        self.turns = list(turns)
        self.reads = 0
        self.cancelled = 0
        self.second = asyncio.Event()

    async def get(self, key: str) -> bytes:
        self.reads += 1
        if self.reads == 2:
            self.second.set()
        turn = self.turns.pop(0) if self.turns else None
        if isinstance(turn, Exception):
            raise turn
        if turn is not None:
            try:
                await turn.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return await super().get(key)


def hedged(blobs: Scripted, *, delay: float = 0.0, told: list[str] | None = None) -> HedgedBlobs:
    """A wrapper that loses its patience at once; `told` takes what it counts."""
    made = HedgedBlobs(blobs, clock=lambda: 0.0, count=(told if told is not None else []).append)
    made._patience.delay = delay
    return made


async def test_a_slow_read_is_asked_again_and_the_first_answer_wins() -> None:
    blobs = Scripted(asyncio.Event())
    await blobs.create("a", b"x")
    told: list[str] = []
    store = hedged(blobs, told=told)
    assert await store.get("a") == b"x"
    assert (told, blobs.reads, blobs.cancelled) == (["sent", "won"], 2, 1)


async def test_a_quick_read_is_asked_once() -> None:
    blobs = Scripted()
    await blobs.create("a", b"x")
    store = hedged(blobs, delay=60)
    assert await store.get("a") == b"x"
    assert blobs.reads == 1


async def test_an_error_of_one_request_leaves_it_to_the_other() -> None:
    gate = asyncio.Event()
    blobs = Scripted(gate, Unavailable("the second one failed"))
    await blobs.create("a", b"x")
    told: list[str] = []
    store = hedged(blobs, told=told)
    reading = asyncio.create_task(store.get("a"))
    await blobs.second.wait()
    gate.set()
    assert await reading == b"x"
    assert told == ["sent"]


async def test_that_there_is_no_object_is_an_answer() -> None:
    told: list[str] = []
    store = hedged(Scripted(asyncio.Event()), told=told)
    with pytest.raises(NotFound):
        await store.get("nothing")
    assert told == ["sent", "won"]


async def test_the_last_error_is_the_answer_when_both_fail() -> None:
    store = hedged(Scripted())
    with pytest.raises(NotFound):
        await store.get("nothing")


async def test_a_cancelled_read_leaves_no_request_behind() -> None:
    blobs = Scripted(asyncio.Event(), asyncio.Event())
    reading = asyncio.create_task(hedged(blobs).get("a"))
    await blobs.second.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert blobs.cancelled == 2


def test_the_budget_pays_for_a_burst_and_then_for_one_in_ten() -> None:
    budget = Budget()
    assert sum(budget.spend() for _ in range(100)) == BANK
    spent = 0
    for _ in range(1000):
        budget.earn()
        spent += budget.spend()
    assert 95 <= spent <= 100


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.001, SHORTEST), (0.2, 0.2), (30.0, LONGEST)], ids=["floor", "learned", "ceiling"]
)
def test_patience_follows_the_recent_reads(seconds: float, expected: float) -> None:
    patience = Patience()
    assert patience.delay == FIRST_DELAY
    for _ in range(WINDOW):
        patience.learn(seconds)
    assert patience.delay == expected


@pytest.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    """Every task has ended when a test has."""
    yield
    assert len(asyncio.all_tasks()) == 1
