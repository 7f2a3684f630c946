"""A bar on standard error while a transfer runs: only on a terminal, without colour where NO_COLOR is set."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TextIO

EVERY = 0.1
WIDTH = 28
_COLOUR, _PLAIN = "\x1b[36m", "\x1b[0m"
_CLEAR = "\r\x1b[K"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How far a transfer is. `total` is None while nobody knows."""

    verb: str
    done: int
    total: int | None
    versions: int
    refused: int


def line(state: State, *, seconds: float, columns: int, colour: bool) -> str:
    """One line that fits into so many columns."""
    bar = ""
    documents = f"{state.done} documents"
    if state.total is not None:
        filled = WIDTH if state.total == 0 else WIDTH * min(state.done, state.total) // state.total
        bar = f"[{'#' * filled}{'-' * (WIDTH - filled)}] "
        documents = f"{state.done}/{state.total} documents"
    rate = f"{state.versions / seconds:.0f}/s" if seconds > 0 else "-"
    refused = f", {state.refused} refused" if state.refused else ""
    text = f"{state.verb} {bar}{documents}, {state.versions} versions, {rate}{refused}"[: max(columns - 1, 0)]
    if colour and bar and bar.rstrip() in text:
        text = text.replace(bar.rstrip(), f"{_COLOUR}{bar.rstrip()}{_PLAIN}")
    return text


@asynccontextmanager
async def shown(state: Callable[[], State], stream: TextIO) -> AsyncIterator[None]:
    """Show the state while the body runs, if `stream` is a terminal, and wipe it in the end."""
    if not stream.isatty():
        yield
        return
    started = time.monotonic()
    colour = not os.environ.get("NO_COLOR")

    async def draw() -> None:
        while True:
            columns = shutil.get_terminal_size().columns
            text = line(state(), seconds=time.monotonic() - started, columns=columns, colour=colour)
            stream.write(_CLEAR + text)
            stream.flush()
            await asyncio.sleep(EVERY)

    drawing = asyncio.create_task(draw(), name="progress")
    try:
        yield
    finally:
        drawing.cancel()
        await asyncio.gather(drawing, return_exceptions=True)
        stream.write(_CLEAR)
        stream.flush()
