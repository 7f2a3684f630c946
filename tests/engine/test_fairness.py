"""Turns: what a committer leaves to its peers, and what it does when they leave it nothing."""

import asyncio
from typing import Any

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Exists
from demarkus_world.engine import retry
from demarkus_world.engine.fairness import COURTESY, LOSSES, PEERS_MS, Fairness


def test_a_winner_leaves_its_peers_a_moment_once() -> None:
    fairness = Fairness()
    fairness.peer_wrote(1000)
    fairness.won(1000 + PEERS_MS - 1)
    assert fairness.courtesy() == COURTESY <= 0.03 / (1 + retry.JITTER)
    assert fairness.courtesy() == 0


def test_who_writes_alone_waits_for_nobody() -> None:
    fairness = Fairness()
    fairness.won(1000)
    assert fairness.courtesy() == 0
    fairness.peer_wrote(1000)
    fairness.won(1000 + PEERS_MS)
    assert fairness.courtesy() == 0, "the peer was last seen three seconds ago"
    fairness.won(999)
    assert fairness.courtesy() == 0, "the clock went back"


def test_a_loser_waits_for_nobody() -> None:
    fairness = Fairness()
    fairness.peer_wrote(1000)
    fairness.won(1000)
    fairness.lost()
    assert fairness.courtesy() == 0


def test_three_losses_in_a_row_shrink_the_offer_until_it_wins() -> None:
    fairness = Fairness()
    seen = []
    for _ in range(LOSSES):
        seen.append(fairness.one_at_a_time)
        fairness.lost()
    assert seen == [False] * LOSSES
    assert fairness.one_at_a_time
    fairness.won(0)
    assert not fairness.one_at_a_time


def test_pauses_grow_to_their_bound_and_stay_there() -> None:
    assert [retry.pause_before(attempt) for attempt in (1, 2, 3, 6, 7)] == [0.1, 0.2, 0.4, 3.2, 5.0]
    assert retry.pause_before(10**6) == retry.LONGEST_PAUSE


class Outrun(MemoryBlobs):
    """Each slot offered here meets one that a quicker peer has just made, while `races` last; sizes are noted."""

    exclusive = False

    def __init__(self) -> None:
        super().__init__()
        self.races = 0
        self.peer: Any = None
        self.offered: list[int] = []

    async def create(self, key: str, data: bytes) -> None:
        if key.startswith("log/") and self.peer is not None:
            self.offered.append(data.count(b'"seq":'))
            if self.races:
                self.races -= 1
                await self.peer()
                raise Exists(key)
        await super().create(key, data)


async def test_after_three_losses_only_the_oldest_request_is_offered(start: Any, a_write: Any) -> None:
    blobs = Outrun()
    peer = await start(blobs)
    engine = await start(blobs)
    writes = 0

    async def outrun() -> None:
        nonlocal writes
        writes += 1
        blobs.peer = None
        await peer.write(a_write(path="/peer.md", body=b"%d" % writes))
        blobs.peer = outrun

    blobs.peer, blobs.races = outrun, LOSSES + 1
    results = await asyncio.gather(*(engine.write(a_write(path=f"/{n}.md")) for n in range(5)))
    assert [result.version for result in results] == [1] * 5
    # The first offer may have come before all had been staged; after that the whole line was decided anew together.
    assert blobs.offered[1:] == [5, 5, 1, 1, 4]
    assert (await engine.view(exact=True)).sequence == LOSSES + 1 + 5
