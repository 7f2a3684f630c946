"""What is told about the calls to a store."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.observed import ObservedBlobs
from demarkus_base.blobs.port import (
    BlobError,
    Exists,
    Integrity,
    NotFound,
    Permanent,
    StoreFull,
    StoreLocked,
    Throttled,
    Unavailable,
)


class Failing(MemoryBlobs):
    """Every call raises `error`, if there is one."""

    error: BlobError | None = None

    async def get(self, key: str) -> bytes:
        if self.error is not None:
            raise self.error
        return await super().get(key)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        if self.error is not None:
            raise self.error
        async for key in super().list(prefix, after):
            yield key


class Told(list[tuple[str, str, float]]):
    def __call__(self, call: str, outcome: str, seconds: float) -> None:
        self.append((call, outcome, seconds))


def observed(blobs: MemoryBlobs, told: Told) -> ObservedBlobs:
    ticks = iter(range(1000))
    return ObservedBlobs(blobs, observer=told, clock=lambda: float(next(ticks)))


async def test_each_call_is_told_with_its_outcome_and_time() -> None:
    told = Told()
    blobs = observed(MemoryBlobs(), told)
    await blobs.create("a", b"x")
    assert await blobs.get("a") == b"x"
    assert [key async for key in blobs.list("")] == ["a"]
    await blobs.delete("a")
    assert told == [("create", "ok", 1.0), ("get", "ok", 1.0), ("list", "ok", 1.0), ("delete", "ok", 1.0)]


@pytest.mark.parametrize(
    ("error", "outcome", "answers"),
    [
        (NotFound("-"), "not-found", True),
        (Exists("-"), "exists", True),
        (Throttled("-"), "throttled", False),
        (Unavailable("-"), "unavailable", False),
        (Integrity("-"), "integrity", False),
        (StoreFull("-"), "full", False),
        (Permanent("-"), "refused", False),
        (StoreLocked("-"), "refused", False),
    ],
)
async def test_a_failure_is_told_and_passed_on(error: BlobError, outcome: str, answers: bool) -> None:
    told, failing = Told(), Failing()
    failing.error = error
    blobs = observed(failing, told)
    with pytest.raises(type(error)):
        await blobs.get("a")
    with pytest.raises(type(error)):
        [key async for key in blobs.list("")]
    assert [(call, told_outcome) for call, told_outcome, _ in told] == [("get", outcome), ("list", outcome)]
    assert (blobs.problem is None) == answers
    failing.error = None
    await blobs.create("b", b"x")
    assert blobs.problem is None, "it answers again"


async def test_a_call_given_up_is_not_told() -> None:
    class Hanging(MemoryBlobs):
        async def get(self, key: str) -> bytes:
            await asyncio.Event().wait()
            raise AssertionError

    told = Told()
    blobs = observed(Hanging(), told)
    reading = asyncio.create_task(blobs.get("a"))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait({reading})
    assert (told, blobs.problem) == ([], None)
