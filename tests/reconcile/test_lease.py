"""The election, on a clock that moves only when somebody sleeps."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from demarkus_operator.cluster.port import TryLater
from demarkus_operator.plan.objects import Ref
from demarkus_operator.reconcile.lease import DURATION, GIVE_UP, RETRY, Lease, LeaseLost
from tests.reconcile.memory import MemoryPort

LEASE = Ref("coordination.k8s.io/v1", "Lease", "demarkus-system", "demarkus-operator")


class Time:
    """Seconds that pass by sleeping. After `limit` seconds a sleeper is stopped."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.limit = 100.0

    def clock(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 12, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.seconds += seconds
        if self.seconds > self.limit:
            raise TimeoutError(f"nothing happened in {self.limit:.0f} s")


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def port() -> MemoryPort:
    found = MemoryPort()
    found.namespace("demarkus-system")
    return found


def a_lease(port: MemoryPort, time: Time, identity: str) -> Lease:
    return Lease(
        port,
        namespace=LEASE.namespace,
        name=LEASE.name,
        identity=identity,
        clock=time.clock,
        now=time.now,
        sleep=time.sleep,
    )


def holder(port: MemoryPort) -> str:
    return str(port.objects[LEASE]["spec"]["holderIdentity"])


async def test_the_first_takes_it_at_once(port: MemoryPort, time: Time) -> None:
    await a_lease(port, time, "one").acquire()
    assert (holder(port), time.seconds) == ("one", 0)


async def test_the_second_waits_while_the_first_renews(port: MemoryPort, time: Time) -> None:
    first = a_lease(port, time, "one")
    await first.acquire()
    keeping = asyncio.create_task(first.keep())
    with pytest.raises(TimeoutError, match="nothing happened"):
        await a_lease(port, time, "two").acquire()
    await asyncio.wait({keeping})
    assert isinstance(keeping.exception(), TimeoutError)
    assert holder(port) == "one"


async def test_the_second_takes_over_when_the_first_is_gone(port: MemoryPort, time: Time) -> None:
    await a_lease(port, time, "one").acquire()
    time.seconds = 1000.0  # how old the lease is does not count, only how long we saw it unchanged
    time.limit = 1100.0
    await a_lease(port, time, "two").acquire()
    assert holder(port) == "two"
    assert DURATION <= time.seconds - 1000 <= DURATION + RETRY
    assert port.objects[LEASE]["spec"]["leaseTransitions"] == 2


async def test_a_lease_that_is_given_back_is_taken_at_once(port: MemoryPort, time: Time) -> None:
    first = a_lease(port, time, "one")
    await first.acquire()
    await first.release()
    await a_lease(port, time, "two").acquire()
    assert (holder(port), time.seconds) == ("two", 0)


async def test_only_one_of_many_gets_it(port: MemoryPort, time: Time) -> None:
    winners: list[str] = []

    async def run(identity: str) -> None:
        await a_lease(port, time, identity).acquire()
        winners.append(identity)

    tasks = [asyncio.create_task(run(str(number))) for number in range(5)]
    time.limit = DURATION - RETRY
    await asyncio.wait(tasks)
    assert len(winners) == 1
    for task in tasks:
        assert task.exception() is None or isinstance(task.exception(), TimeoutError)


async def test_who_loses_it_to_another_stops(port: MemoryPort, time: Time) -> None:
    first = a_lease(port, time, "one")
    await first.acquire()
    port.edit(LEASE, "spec", "holderIdentity", value="two")
    with pytest.raises(LeaseLost, match="held by two"):
        await first.keep()
    await first.release()
    assert holder(port) == "two"


async def test_who_can_not_renew_stops_before_others_may_start(port: MemoryPort, time: Time) -> None:
    first = a_lease(port, time, "one")
    await first.acquire()

    def unreachable(verb: str, ref: Ref | None) -> None:
        raise TryLater("connection refused")

    port.before = unreachable
    with pytest.raises(LeaseLost, match="could not be renewed"):
        await first.keep()
    assert GIVE_UP <= time.seconds < DURATION


async def test_a_short_outage_is_survived(port: MemoryPort, time: Time) -> None:
    first = a_lease(port, time, "one")
    await first.acquire()

    def sometimes(verb: str, ref: Ref | None) -> None:
        if time.seconds % 10 < 5:
            raise TryLater("connection refused")

    port.before = sometimes
    with pytest.raises(TimeoutError, match="nothing happened"):
        await first.keep()
    assert holder(port) == "one"


async def test_an_edit_of_the_lease_by_somebody_else_is_no_loss(port: MemoryPort, time: Time) -> None:
    first = a_lease(port, time, "one")
    await first.acquire()

    def label(verb: str, ref: Ref | None) -> None:
        if verb == "patch" and time.seconds < 7:
            port.edit(LEASE, "metadata", "labels", "seen", value=f"at-{time.seconds}")

    port.before = label
    time.limit = 30.0
    with pytest.raises(TimeoutError, match="nothing happened"):
        await first.keep()
    assert holder(port) == "one"
