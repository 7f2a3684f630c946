"""A supervised child is started, asked, restarted and ended; it never outlives its starter."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from demarkus_operator.local.ports import Ports
from demarkus_operator.local.probe import readiness
from demarkus_operator.local.processes import Command, Pace, Phase, Process, State

STAND_IN = textwrap.dedent(
    """
    import http.server, os, sys, threading
    class Ready(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/readyz?verbose" else 404)
            self.end_headers()
            self.wfile.write(b"{}")
        def log_message(self, *arguments):
            pass
    server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print("serving", flush=True)
    server.serve_forever()
    """
)
"""A server that is ready at once and ends with its standard input."""

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"

QUICK = Pace(first=0.05, longest=0.2, settled=60, probe=0.02, probe_ready=0.05, grace=5)


class Watched:
    """The states a process went through, and a way to wait for one."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self._news = asyncio.Event()

    def __call__(self, state: State) -> None:
        self.states.append(state)
        self._news.set()

    async def until(self, holds: Callable[[State], bool], what: str) -> State:
        async with asyncio.timeout(30):
            while True:
                self._news.clear()
                for state in self.states:
                    if holds(state):
                        return state
                await self._news.wait()
        raise AssertionError(f"never {what}: {self.states}")


def a_command(*argv: str, ready: Callable[[], Awaitable[bool]] | None = None) -> Callable[[], Awaitable[Command]]:
    async def never() -> bool:
        return False

    async def prepare() -> Command:
        return Command((sys.executable, *argv), dict(os.environ), ready or never)

    return prepare


@contextlib.asynccontextmanager
async def running(
    folder: Path, prepare: Callable[[], Awaitable[Command]], *, pace: Pace = QUICK
) -> AsyncIterator[Watched]:
    watched = Watched()
    process = Process(folder / "logs" / "child.log", folder / "child.lock", prepare, watched, pace)
    task = asyncio.create_task(process.run())
    try:
        yield watched
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def a_server(folder: Path) -> Callable[[], Awaitable[Command]]:
    script = folder / "stand_in.py"
    script.write_text(STAND_IN)
    port = Ports(folder / "ports.json").choose("stand-in", "tcp")

    async def ready() -> bool:
        return await readiness(f"127.0.0.1:{port}") is not None

    return a_command(str(script), str(port), ready=ready)


async def test_a_child_becomes_ready_and_ends_when_asked(tmp_path: Path, is_alive: Callable[[int], bool]) -> None:
    async with running(tmp_path, a_server(tmp_path)) as watched:
        state = await watched.until(lambda state: state.phase is Phase.READY, "ready")
        assert state.pid is not None
        assert is_alive(state.pid)
    assert watched.states[-1].phase is Phase.STOPPED
    assert not is_alive(state.pid)
    assert (tmp_path / "logs" / "child.log").read_text() == "serving\n"


async def test_a_killed_child_is_started_again_and_the_restart_is_counted(tmp_path: Path) -> None:
    async with running(tmp_path, a_server(tmp_path)) as watched:
        first = await watched.until(lambda state: state.phase is Phase.READY, "ready")
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        down = await watched.until(lambda state: state.phase is Phase.BACKOFF, "seen to be down")
        assert down.exit_code == -signal.SIGKILL
        again = await watched.until(lambda state: state.phase is Phase.READY and state.restarts == 1, "ready again")
        assert again.pid != first.pid


async def test_a_child_that_fails_tells_why_and_is_tried_again(tmp_path: Path) -> None:
    prepare = a_command("-c", "import sys; print('no such world'); print(); sys.exit(3)")
    async with running(tmp_path, prepare) as watched:
        state = await watched.until(lambda state: state.restarts == 3, "restarted three times")
    assert (state.exit_code, state.last_words) == (3, "no such world")


async def test_a_start_that_can_not_be_prepared_is_tried_again(tmp_path: Path) -> None:
    calls = 0
    started = a_server(tmp_path)

    async def prepare() -> Command:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("Secret default/keys is not there yet")
        return await started()

    async with running(tmp_path, prepare) as watched:
        await watched.until(lambda state: state.phase is Phase.READY, "ready")
    assert watched.states[0].last_words == "Secret default/keys is not there yet"


def test_waits_between_restarts_double_up_to_a_bound_and_a_settled_process_waits_not_at_all() -> None:
    pace = Pace(first=0.5, longest=30)
    assert [pace.delay(failures) for failures in (0, 1, 2, 3, 7, 1000)] == [0, 0.5, 1, 2, 30, 30]


async def test_a_child_that_ignores_the_request_to_end_is_made_to(
    tmp_path: Path, is_alive: Callable[[int], bool], until: Callable[..., None]
) -> None:
    pace = Pace(grace=0.2, probe=0.02)
    log = tmp_path / "logs" / "child.log"
    async with running(tmp_path, a_command("-c", DEAF), pace=pace) as watched:
        state = await watched.until(lambda state: state.pid is not None, "started")
        await asyncio.to_thread(until, "the child is deaf to requests", lambda: "deaf" in log.read_text())
        assert state.pid is not None
    assert not is_alive(state.pid)


async def test_a_child_gets_no_time_to_end_when_there_is_a_hurry(
    tmp_path: Path, is_alive: Callable[[int], bool], until: Callable[..., None]
) -> None:
    log, hurry, watched = tmp_path / "child.log", asyncio.Event(), Watched()
    process = Process(log, tmp_path / "lock", a_command("-c", DEAF), watched, Pace(grace=3600, probe=0.02), hurry)
    task = asyncio.create_task(process.run())
    state = await watched.until(lambda state: state.pid is not None, "started")
    await asyncio.to_thread(until, "the child is deaf to requests", lambda: "deaf" in log.read_text())
    task.cancel()
    hurry.set()
    async with asyncio.timeout(30):
        await asyncio.gather(task, return_exceptions=True)
    assert state.pid is not None
    assert not is_alive(state.pid)


async def test_a_child_does_not_hear_the_terminals_interrupt(tmp_path: Path) -> None:
    async with running(tmp_path, a_server(tmp_path)) as watched:
        state = await watched.until(lambda state: state.pid is not None, "started")
        assert state.pid is not None
        assert os.getpgid(state.pid) != os.getpgid(0)


def test_children_end_when_their_starter_is_killed(
    tmp_path: Path, until: Callable[..., None], is_alive: Callable[[int], bool]
) -> None:
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    starter = tmp_path / "starter.py"
    starter.write_text(
        textwrap.dedent(
            f"""
            import asyncio, os, sys
            from pathlib import Path
            from demarkus_operator.local.processes import Command, Process
            async def never(): return False
            async def prepare():
                return Command((sys.executable, {str(tmp_path / "stand_in.py")!r}, "0"), dict(os.environ), never)
            def changed(state):
                if state.pid: print(state.pid, flush=True)
            folder = Path({str(tmp_path)!r})
            asyncio.run(Process(folder / "log", folder / "lock", prepare, changed).run())
            """
        )
    )
    with subprocess.Popen([sys.executable, str(starter)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        until("the child serves", lambda: "serving" in (tmp_path / "log").read_text())
        process.kill()
    until("the child ends with its starter", lambda: not is_alive(child))


async def test_a_child_waits_until_its_predecessor_has_ended(tmp_path: Path) -> None:
    lock = tmp_path / "child.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        predecessor = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "import sys; sys.stdin.read()",
            stdin=asyncio.subprocess.PIPE,
            pass_fds=(held.fileno(),),
        )
    prepared = asyncio.Event()
    started = a_server(tmp_path)

    async def prepare() -> Command:
        prepared.set()
        return await started()

    async with running(tmp_path, prepare) as watched:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(prepared.wait(), 0.3)
        await predecessor.communicate(b"")
        await watched.until(lambda state: state.phase is Phase.READY, "ready")


async def test_a_predecessor_that_does_not_end_is_named(tmp_path: Path) -> None:
    with (tmp_path / "child.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        async with running(tmp_path, a_server(tmp_path), pace=Pace(grace=0.1, probe=0.02)) as watched:
            state = await watched.until(lambda state: state.phase is Phase.BACKOFF, "given up for now")
    assert "has not ended" in state.last_words


async def test_a_large_log_is_moved_aside_at_the_next_start(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "child.log"
    log.parent.mkdir()
    with log.open("wb") as stream:
        stream.truncate(9 << 20)
    async with running(tmp_path, a_server(tmp_path)) as watched:
        await watched.until(lambda state: state.phase is Phase.READY, "ready")
    assert log.stat().st_size < 100
    assert log.with_name("child.log.1").stat().st_size == 9 << 20
