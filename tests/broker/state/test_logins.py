"""Logins over refresh tokens: successors, siblings, reuse, the bound per person, ends."""

from __future__ import annotations

import asyncio

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_broker.state import rotation
from demarkus_broker.state.facts import Facts
from demarkus_broker.state.logins import MOST, Login, Logins, ReusedError

NOW = 1_800_000_000
FACTS = {"client": "c"}


class Person:
    """Ann, who signs in and refreshes at two replicas over one store."""

    def __init__(self) -> None:
        self.facts = Facts(MemoryBlobs())
        self.replicas = [Logins(self.facts), Logins(self.facts)]
        self.logins = self.replicas[0]

    async def begin(self, *, expires: int = NOW + 86400) -> tuple[str, str]:
        name = self.logins.new_name(expires)
        return name, await self.logins.begin(name, FACTS, person="s-ann", now=NOW)

    async def find(self, token: str, *, now: float = NOW) -> Login | None:
        return await self.logins.find(token, now=now)

    async def refresh(self, token: str, *, now: float = NOW, replica: int = 0) -> str:
        login = await self.replicas[replica].find(token, now=now)
        assert login is not None, "the login is gone"
        return await self.replicas[replica].rotate(login, now=now)


@pytest.fixture
def ann() -> Person:
    return Person()


async def test_a_login_goes_on_from_token_to_token(ann: Person) -> None:
    _, token = await ann.begin()
    for step in range(5):
        token = await ann.refresh(token, now=NOW + step * 900, replica=step % 2)
    found = await ann.find(token)
    assert found is not None
    assert found.facts["client"] == "c"


async def test_processes_that_race_get_siblings_and_each_goes_on(ann: Person) -> None:
    _, token = await ann.begin()
    siblings = await asyncio.gather(*(ann.refresh(token, now=NOW + n, replica=n % 2) for n in range(4)))
    assert len(set(siblings)) == 4
    later = [await ann.refresh(sibling, now=NOW + 900 * (n + 1)) for n, sibling in enumerate(siblings)]
    assert all([await ann.find(token) for token in later])


async def test_reuse_after_the_grace_window_ends_the_login_at_every_replica(ann: Person) -> None:
    name, token = await ann.begin()
    successor = await ann.refresh(token)
    with pytest.raises(ReusedError, match=name):
        await ann.refresh(token, now=NOW + rotation.GRACE + 1, replica=1)
    assert await ann.find(successor) is None
    assert await ann.find(token) is None
    assert await ann.logins.ended(name)


async def test_a_token_can_not_be_multiplied_without_end(ann: Person) -> None:
    _, token = await ann.begin()
    for _ in range(rotation.SIBLINGS):
        await ann.refresh(token)
    with pytest.raises(ReusedError):
        await ann.refresh(token)


async def test_only_the_genuine_token_leads_to_a_login(ann: Person) -> None:
    name, token = await ann.begin()
    forged = token[:-1] + ("0" if token[-1] != "0" else "1")
    strange = (forged, f"{name}.2.00000000.{'0' * 32}", "", "x", token + "\n", token.upper(), f"{name}.0.00000000.x")
    for presented in strange:
        assert await ann.find(presented) is None
    assert await ann.find(token) is not None


async def test_a_login_expires(ann: Person) -> None:
    _, token = await ann.begin(expires=NOW + 60)
    assert await ann.find(token, now=NOW + 60) is None


async def test_one_login_too_many_ends_the_one_that_expires_first(ann: Person) -> None:
    tokens = [(await ann.begin(expires=NOW + 1000 + n))[1] for n in range(MOST + 2)]
    alive = [await ann.find(token) is not None for token in tokens]
    assert alive == [False, False] + [True] * MOST


async def test_the_store_holds_no_token(ann: Person) -> None:
    _, token = await ann.begin()
    secret = token.rpartition(".")[2]
    for key in await ann.facts.keys(""):
        assert secret not in key
        assert secret not in str(await ann.facts.read(key))


def test_old_tokens_are_forgotten_from_the_oldest_on_and_other_lanes_are_left_alone() -> None:
    lane = [f"logins/l/{n:08d}-{'0' * 8}" for n in range(1, 20)]
    other = [f"logins/l/{n:08d}-{'a' * 8}" for n in range(3, 5)]
    gone = rotation.superseded([*reversed(lane), *other, "logins/l/began"])
    assert gone == lane[: 19 - rotation.KEPT - 1]
