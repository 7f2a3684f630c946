"""Rates and slots: who waits, who is refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from demarkus_world import admission
from demarkus_world.admission import Admission, RateLimiter, Refusal, caller_of
from demarkus_world.authority import Credential


def waits(limiter: RateLimiter, caller: str, *moments: float, patience: float = 10.0) -> list[float | str]:
    """What each turn taken at a moment costs: seconds to wait, or `refused`."""
    found: list[float | str] = []
    for now in moments:
        try:
            found.append(round(limiter.reserve(caller, now=now, patience=patience), 6))
        except Refusal:
            found.append("refused")
    return found


def test_a_burst_passes_and_then_the_rate_holds() -> None:
    limiter = RateLimiter(per_second=2, burst=3)
    assert waits(limiter, "a", 0, 0, 0, 0, 0, 0) == [0, 0, 0, 0.5, 1.0, 1.5]
    assert waits(limiter, "a", 1.5, 10) == [0.5, 0]


def test_who_would_wait_too_long_is_refused_and_pays_nothing() -> None:
    limiter = RateLimiter(per_second=1, burst=1)
    assert waits(limiter, "a", 0, 0, 0, 0, 0, patience=1.0) == [0, 1.0, "refused", "refused", "refused"]
    assert waits(limiter, "a", 1.0, 2.0, patience=1.0) == [1.0, 1.0]


def test_callers_do_not_share_a_rate() -> None:
    limiter = RateLimiter(per_second=1, burst=1)
    assert waits(limiter, "a", 0, 0, patience=0) == [0, "refused"]
    assert waits(limiter, "b", 0) == [0]


def test_a_rate_of_zero_is_no_limit() -> None:
    assert waits(RateLimiter(per_second=0, burst=1), "a", *[0.0] * 1000, patience=0) == [0.0] * 1000


def test_a_new_rate_holds_at_once() -> None:
    limiter = RateLimiter(per_second=1, burst=1)
    assert waits(limiter, "a", 0, 0, patience=0) == [0, "refused"]
    limiter.set_rate(per_second=0, burst=1)
    assert waits(limiter, "a", 0, patience=0) == [0]


def test_the_number_of_callers_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "CALLERS", 10)
    limiter = RateLimiter(per_second=1, burst=1)
    for number in range(100):
        waits(limiter, f"caller {number}", 0)
    assert len(limiter._buckets) == 10


def test_the_caller_is_the_credential_and_else_the_address() -> None:
    token = Credential(kind="token", label="kettle", allow=())
    grant = Credential(kind="grant", label="kettle", allow=())
    assert caller_of(token, "192.0.2.1") == caller_of(token, "192.0.2.2")
    assert caller_of(token, "192.0.2.1") != caller_of(grant, "192.0.2.1")
    assert caller_of(None, "192.0.2.1") != caller_of(None, "192.0.2.2")
    assert caller_of(None, "::ffff:192.0.2.1") == caller_of(None, "::ffff:192.0.2.1")
    assert caller_of(None, "2001:db8::1") == caller_of(None, "2001:db8::ffff:1")
    assert caller_of(None, "2001:db8::1") != caller_of(None, "2001:db8:0:1::1")
    assert caller_of(None, "fe80::1%eth0") == caller_of(None, "fe80::2")


@asynccontextmanager
async def admitted(gate: Admission, caller: str, *, patience: float) -> AsyncIterator[None]:
    """What a request goes through that can't be answered at once."""
    wait = gate.enter(caller, patience=patience)
    try:
        async with gate.slot(wait, patience=patience):
            yield
    finally:
        gate.leave()


async def test_a_full_house_refuses_and_lets_in_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "UNDER_WAY", 2)
    gate = Admission(RateLimiter(per_second=0, burst=1))
    async with admitted(gate, "a", patience=1), admitted(gate, "b", patience=1):
        with pytest.raises(Refusal, match="requests under way"):
            async with admitted(gate, "c", patience=1):
                pass
    async with admitted(gate, "c", patience=1):
        assert gate.under_way == 1
    assert gate.under_way == 0


async def test_a_request_waits_for_a_slot_no_longer_than_its_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "WORKING", 1)
    gate = Admission(RateLimiter(per_second=0, burst=1))
    async with admitted(gate, "a", patience=1):
        with pytest.raises(Refusal, match="worked on at once"):
            async with admitted(gate, "b", patience=0.01):
                pass
    async with admitted(gate, "b", patience=0.01):
        pass


async def test_who_waits_for_its_rate_keeps_no_slot_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "WORKING", 1)
    gate = Admission(RateLimiter(per_second=0.1, burst=1))
    order: list[str] = []

    async def ask(caller: str) -> None:
        async with admitted(gate, caller, patience=60):
            order.append(caller)

    await ask("greedy")
    waiting: asyncio.Task[Any] = asyncio.create_task(ask("greedy"))
    await asyncio.sleep(0)
    await ask("modest")
    assert order == ["greedy", "modest"]
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert gate.under_way == 0
