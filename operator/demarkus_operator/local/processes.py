"""Keeps one child process running: start, lifeline, log file, readiness, restart with backoff, orderly end.

A child must not outlive its starter, not even when that is killed with -9: its standard input is a pipe nobody writes
to, and the services end when they read its end (`--stop-on-stdin-eof`). Children lead process groups of their own, so
that a Ctrl-C at the terminal reaches the starter alone, which then ends them in order.

A child that lost its starter still needs a moment to end. Until then it holds a lock that it inherited, and its
successor waits for it: two never work on one folder, and the successor finds the ports free again.

What is started and how it is asked for readiness is decided anew before every start by `prepare`, because a port may
have been taken in the meantime. Which processes there are is `pods.py`'s business.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from demarkus_operator.local.state import make_folder, open_log

LAST_WORDS_BYTES = 4096
LAST_WORDS_CHARACTERS = 400


class Phase(StrEnum):
    """Where a process is in its life."""

    STARTING = "Starting"
    READY = "Ready"
    BACKOFF = "BackOff"
    STOPPED = "Stopped"


@dataclass(frozen=True, slots=True)
class Command:
    """What to start: argument vector, the whole environment, and where readiness is asked."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    probe: Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Pace:
    """Waits in seconds: between restarts (doubling from `first` to `longest`), and how long an end may take."""

    first: float = 0.5
    longest: float = 30.0
    settled: float = 30.0
    """A process that was ready for this long is restarted at once, as if it never failed before."""
    probe: float = 0.1
    probe_ready: float = 1.0
    grace: float = 15.0

    def delay(self, failures: int) -> float:
        """How long to wait after this many failures in a row; none means that it had settled."""
        return min(self.first * 2 ** min(failures - 1, 16), self.longest) if failures else 0.0


@dataclass(frozen=True, slots=True)
class State:
    """What can be told about a process; `last_words` are the last line it wrote before it ended by itself."""

    phase: Phase = Phase.STARTING
    pid: int | None = None
    restarts: int = 0
    exit_code: int | None = None
    last_words: str = ""


class Changed(Protocol):
    """Called with every new state, on the event loop; must not block."""

    def __call__(self, state: State) -> None: ...


@dataclass(slots=True)
class Process:
    """One supervised child. `run` is its whole life; whoever starts that task awaits it."""

    log: Path
    lock: Path
    prepare: Callable[[], Awaitable[Command]]
    changed: Changed
    pace: Pace = field(default_factory=Pace)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    """Set from outside: a child that is to end gets no time for it."""
    state: State = field(default_factory=State)
    _doubted: asyncio.Event = field(default_factory=asyncio.Event)

    def doubt(self) -> None:
        """Whatever made it ready has changed: it is not ready until it says so again."""
        if self.state.phase is Phase.READY:
            self._tell(replace(self.state, phase=Phase.STARTING))
            self._doubted.set()

    async def run(self) -> None:
        """Keep the child running until cancelled; it has ended when this returns.

        `prepare` may raise OSError or ValueError: that counts as a failed start.
        """
        loop = asyncio.get_running_loop()
        failures = 0
        restarts = 0
        try:
            while True:
                ready_since: float | None = None
                try:
                    exit_code, ready_since = await self._live(restarts)
                    words = await asyncio.to_thread(_last_words, self.log)
                except (OSError, ValueError) as error:
                    exit_code, words = None, str(error)
                settled = ready_since is not None and loop.time() - ready_since >= self.pace.settled
                failures = 0 if settled else failures + 1
                restarts += 1
                self._tell(State(Phase.BACKOFF, None, restarts, exit_code, words))
                await asyncio.sleep(self.pace.delay(failures))
        finally:
            self._tell(replace(self.state, phase=Phase.STOPPED, pid=None))

    async def _live(self, restarts: int) -> tuple[int, float | None]:
        """One life of the child: its exit code and when it was first ready (loop time), if ever."""
        lock = await self._lock()
        try:
            command = await self.prepare()
            log = await asyncio.to_thread(open_log, self.log)
            try:
                child = await asyncio.create_subprocess_exec(
                    *command.argv,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=log,
                    stderr=asyncio.subprocess.STDOUT,
                    env=dict(command.environment),
                    start_new_session=True,
                    pass_fds=(lock,),
                )
            finally:
                os.close(log)
        finally:
            os.close(lock)  # from here on it is the child's alone
        self._tell(replace(self.state, phase=Phase.STARTING, pid=child.pid, restarts=restarts))
        ended = asyncio.ensure_future(child.wait())
        ready_since: float | None = None
        try:
            while not ended.done():
                self._doubted.clear()
                ready = await command.probe()
                if ended.done():
                    break
                if self._doubted.is_set():
                    continue  # the answer may be about what was before
                if ready and ready_since is None:
                    ready_since = asyncio.get_running_loop().time()
                self._tell(replace(self.state, phase=Phase.READY if ready else Phase.STARTING))
                await _first(ended, self._doubted, self.pace.probe_ready if ready else self.pace.probe)
        finally:
            await self._end(child, ended)
        return ended.result(), ready_since

    async def _end(self, child: asyncio.subprocess.Process, ended: asyncio.Future[int]) -> None:
        """See the child off, also when we are being cancelled: asked first, then made to."""
        if not ended.done():
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
            try:
                await _first(ended, self.hurry, self.pace.grace)
            finally:
                if not ended.done():
                    with contextlib.suppress(ProcessLookupError):
                        child.kill()
                    await asyncio.wait([ended])
        if child.stdin is not None:
            child.stdin.close()

    async def _lock(self) -> int:
        """The process's lock as a descriptor for the child. Raises OSError if an earlier child keeps it too long."""
        lock = await asyncio.to_thread(_open_lock, self.lock)
        try:
            async with asyncio.timeout(self.pace.grace):
                while True:
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        return lock
                    except BlockingIOError:
                        await asyncio.sleep(self.pace.probe)
        except TimeoutError:
            os.close(lock)
            raise OSError(f"the process before this one has not ended within {self.pace.grace:g} s") from None
        except BaseException:
            os.close(lock)
            raise

    def _tell(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self.changed(state)


async def _first(future: asyncio.Future[Any], event: asyncio.Event, seconds: float) -> None:
    """Until the future is done, the event is set, or the time is over."""
    happened: asyncio.Future[Any] = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([future, happened], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        happened.cancel()


def _open_lock(path: Path) -> int:
    make_folder(path.parent)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _last_words(log: Path) -> str:
    """The last line that says something; readers of a log find the whole story there."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - LAST_WORDS_BYTES))
            lines = stream.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    said = [line.strip() for line in lines if line.strip()]
    return said[-1][:LAST_WORDS_CHARACTERS] if said else ""
