"""A real World behind a real gateway while all of their credentials are exchanged: nobody is refused, no session ends.

Only the operator's clock is played: its Universe was made 89 days ago, so that everything has grown old by now.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.operator.real_universe import DOCUMENT, EVERY, RealUniverse, Traffic, serving

OLD_ENOUGH = timedelta(days=89)


class OldUniverse(RealUniverse):
    """One that was made 89 days ago."""

    ahead = -OLD_ENOUGH
    trust = {"rotateEvery": EVERY}  # noqa: RUF012


@pytest.fixture
async def universe(tmp_path: Path) -> AsyncIterator[RealUniverse]:
    async with serving(OldUniverse(tmp_path)) as made:
        yield made


async def test_row_10_and_11_everything_is_exchanged_and_nobody_is_refused(universe: RealUniverse) -> None:
    before, old_bearer = await universe.credentials(), await universe.bearer()
    await universe.publish("/native.md")
    traffic = Traffic(universe)

    async def exchanged() -> bool:
        return all(value != before[what] for what, value in (await universe.credentials()).items())

    async def followed() -> bool:
        return all(await universe.unused())

    async def dropped() -> bool:
        return set((await universe.accepted()).values()) == {1}

    async with traffic.running():
        universe.ahead = timedelta()
        await universe.until("everything is exchanged", exchanged)
        await universe.until("all processes have gone on to the new ones", followed)
        assert set((await universe.accepted()).values()) == {2}, "what was used before is taken still"
        assert await universe.gateway(old_bearer, "mark_fetch", url=DOCUMENT) == "ok"
    assert traffic.told == []
    assert traffic.done > 20

    # A day later nobody can be using the old ones any more. The robot with the first token has ended an hour ago.
    universe.ahead = timedelta(hours=26)
    await universe.until("the old ones are dropped", dropped)
    after = await universe.credentials()

    async def refused() -> bool:
        return [
            await universe.native(before["token"], after["authority"]),
            await universe.native(after["token"], before["authority"]),
            await universe.gateway(old_bearer, "mark_fetch", url=DOCUMENT),
        ] == ["unauthorized", "unreachable", "401"]

    await universe.until("the old ones are refused", refused)
    assert await universe.native(after["token"], after["authority"]) == "created"
    assert await universe.gateway(await universe.bearer(), "mark_fetch", url=DOCUMENT) == "ok"
    assert await universe.look() == []
