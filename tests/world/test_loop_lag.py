"""The measure of how late the event loop is, on a clock that the test moves."""

from __future__ import annotations

import asyncio

import pytest

from demarkus_world.lag import EVERY, measure


async def test_each_turn_is_measured_against_the_time_it_was_due() -> None:
    time, late = [100.0], iter([0.0, 0.25, 3.0, -0.05])
    seen: list[float] = []

    async def sleep(seconds: float) -> None:
        assert seconds == EVERY
        try:
            time[0] += seconds + next(late)
        except StopIteration:
            raise asyncio.CancelledError from None

    with pytest.raises(asyncio.CancelledError):
        await measure(seen.append, clock=lambda: time[0], sleep=sleep)
    assert seen == pytest.approx([0.0, 0.25, 3.0, 0.0])
