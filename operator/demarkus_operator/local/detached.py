"""An `up` in the background: started and awaited, found again, and ended.

The state folder's lock is the only thing that tells whether one runs; its process id is read from there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from demarkus_operator.local.report import Report
from demarkus_operator.local.state import StateFolder, make_folder

LOOKS = 0.05
"""Seconds between looks at what the background process has written."""
END_SECONDS = 30.0
KILLED_SECONDS = 15.0


class NotReady(Exception):
    """The universe did not become ready; it has been ended again. The message says what was missing."""


class Ended(Exception):
    """The background process ended by itself, with this exit status; what it said has been shown."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"exit status {status}")


class StillRunning(Exception):
    """The universe could not be ended."""


def start_detached(argv: Sequence[str], folder: StateFolder, *, timeout: float, show: Callable[[str], None]) -> Report:
    """Start `up` in a session of its own and wait until all is ready; `show` gets the lines it prints meanwhile.

    Raises NotReady after `timeout` seconds or when something will not become ready by itself, and Ended. Then, and
    when it is interrupted, nothing is left running.
    """
    make_folder(folder.logs)
    with open(folder.output, "wb", opener=_private) as output, folder.output.open("rb") as lines:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            report = None
            deadline = time.monotonic() + timeout
            while report is None or not report.settled:
                ended = process.poll()
                for line in lines:
                    show(line.decode(errors="replace").rstrip("\n"))
                if ended is not None:
                    raise Ended(ended)
                if time.monotonic() > deadline:
                    raise NotReady(_missing(report, f"not ready after {timeout:g} s"))
                time.sleep(LOOKS)
                report = _report_of(folder, process.pid)
            for line in lines:
                show(line.decode(errors="replace").rstrip("\n"))
            if not report.ready:
                raise NotReady(_missing(report, "can't become ready"))
            return report
        except BaseException:
            _end(process)
            raise


def stop_holder(folder: StateFolder, *, patience: float = END_SECONDS) -> bool:
    """End the `up` that holds this folder, and wait until it and its processes have ended; False if none does.

    It is asked first, and made to after `patience` seconds. Raises StillRunning.
    """
    pid = folder.holder()
    if pid is None:
        return False
    if pid == 0:
        raise StillRunning(f"a universe is starting or ending in {folder.root}; try again in a moment")
    for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, KILLED_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while folder.holder() == pid or folder.has_living_processes():
            if time.monotonic() > deadline:
                break
            time.sleep(LOOKS)
        else:
            return True
    raise StillRunning(f"process {pid} or what it started does not end; {folder.root} is still in use")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _report_of(folder: StateFolder, pid: int) -> Report | None:
    with contextlib.suppress(FileNotFoundError, ValueError):
        report = Report.from_json(folder.status.read_text())
        if report.pid == pid:
            return report
    return None


def _missing(report: Report | None, what: str) -> str:
    if report is None:
        return what
    parts = [f"{subject.title}: {subject.reason} {subject.message}" for subject in report.subjects if not subject.ready]
    parts += [f"process {process.name}: {process.last_words}" for process in report.processes if process.last_words]
    return "; ".join([what, *parts])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
