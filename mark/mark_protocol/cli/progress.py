"""How far a long work is: one line on standard error, on a terminal only, gone when the work ends."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

EVERY = 0.1
_CLEAR = "\r\x1b[K"


class Progress:
    """Counts steps. Used as a context manager, so that the line is wiped in any case."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._steps = 0
        self._shown = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def step(self) -> None:
        """One more."""
        self._steps += 1
        now = time.monotonic()
        if sys.stderr.isatty() and now - self._shown >= EVERY:
            self._shown = now
            sys.stderr.write(f"{_CLEAR}{self._doing}: {self._steps}")
            sys.stderr.flush()
