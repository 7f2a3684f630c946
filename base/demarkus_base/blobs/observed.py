"""A store that tells how its calls go: which, how they ended, how long they took, and whether it answers at all.

An answer about an object or a name (`NotFound`, `Exists`) is a success here: the store works. What a caller gave up
by cancelling is not counted.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeVar

from demarkus_base.blobs.port import (
    BlobError,
    Blobs,
    Exists,
    Integrity,
    NotFound,
    Permanent,
    StoreFull,
    Throttled,
)

T = TypeVar("T")

_OUTCOMES: tuple[tuple[type[BlobError], str], ...] = (
    (NotFound, "not-found"),
    (Exists, "exists"),
    (Throttled, "throttled"),
    (Integrity, "integrity"),
    (StoreFull, "full"),
    (Permanent, "refused"),
)


class Observer(Protocol):
    """Is told of each call: `get`, `create`, `delete` or `list` (one page or more), its outcome, its seconds."""

    def __call__(self, call: str, outcome: str, seconds: float) -> None: ...


class ObservedBlobs:
    """See the module. `problem` is why the newest call that ended got no use out of the store, None if it did."""

    def __init__(self, blobs: Blobs, *, observer: Observer, clock: Callable[[], float]) -> None:
        self.problem: str | None = None
        self._blobs = blobs
        self._observer = observer
        self._clock = clock

    @property
    def exclusive(self) -> bool:
        """See `Blobs`."""
        return self._blobs.exclusive

    async def get(self, key: str) -> bytes:
        """See `Blobs.get`."""
        return await self._watch("get", self._blobs.get(key))

    async def create(self, key: str, data: bytes) -> None:
        """See `Blobs.create`."""
        await self._watch("create", self._blobs.create(key, data))

    async def delete(self, key: str) -> None:
        """See `Blobs.delete`."""
        await self._watch("delete", self._blobs.delete(key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        """See `Blobs.list`."""
        started = self._clock()
        try:
            async for key in self._blobs.list(prefix, after):
                yield key
        except BlobError as error:
            self._tell("list", started, error)
            raise
        self._tell("list", started, None)

    async def close(self) -> None:
        """See `Blobs.close`."""
        await self._blobs.close()

    async def _watch(self, call: str, work: Awaitable[T]) -> T:
        started = self._clock()
        try:
            result = await work
        except BlobError as error:
            self._tell(call, started, error)
            raise
        self._tell(call, started, None)
        return result

    def _tell(self, call: str, started: float, error: BlobError | None) -> None:
        answered = error is None or isinstance(error, (NotFound, Exists))
        self.problem = None if answered else str(error)
        self._observer(call, outcome_of(error), self._clock() - started)


def outcome_of(error: BlobError | None) -> str:
    """One word for how a call ended."""
    if error is None:
        return "ok"
    return next((word for kind, word in _OUTCOMES if isinstance(error, kind)), "unavailable")
