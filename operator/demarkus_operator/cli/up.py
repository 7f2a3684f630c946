"""`demarkus up`: realise manifests as processes on this machine."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import sysconfig
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click

from demarkus_base import logs
from demarkus_operator.cli.files import filename_option
from demarkus_operator.cli.options import Failure, Mistake, shown, state_option, with_state
from demarkus_operator.cli.progress import Progress, summary
from demarkus_operator.local import declared
from demarkus_operator.local.detached import Ended, NotReady, start_detached
from demarkus_operator.local.manifests import Document, ManifestError, read
from demarkus_operator.local.report import Report
from demarkus_operator.local.runner import Runner, Surroundings
from demarkus_operator.local.state import StateFolder, StateInUse, open_log
from demarkus_operator.local.store import StateDamaged


@click.command()
@filename_option()
@state_option
@click.option("--as", "person", metavar="EMAIL", help="Whom the bearer names. Default: the first e-mail among writers.")
@click.option("--detach", is_flag=True, help="Return when everything is ready; `demarkus down` ends it.")
@click.option("--detached", is_flag=True, hidden=True, help="Said to the process in the background.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    help="With --detach: seconds to wait for that.",
)
def up(
    paths: tuple[Path, ...], folder: StateFolder, person: str | None, detach: bool, detached: bool, timeout: float
) -> None:
    """Run the Worlds and the Universe of some manifests on this machine.

    Stays until Ctrl-C and starts processes anew that end. Everything is kept in the state folder: the next `up` goes on
    with the same documents, keys and, if they are free, ports. Worlds that are not in the manifests any more are
    stopped; their documents stay.
    """
    try:
        documents = read(paths)
        declared.judged(documents, before={})  # before anything is made
        if detach:
            _detach(paths, folder, person, timeout)
        else:
            _stay(documents, folder, person, detached=detached)
    except ManifestError as error:
        raise Mistake(str(error)) from error
    except (StateInUse, StateDamaged) as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(f"{error.filename or folder.root}: {error.strerror or error}") from error


def _stay(documents: tuple[Document, ...], folder: StateFolder, person: str | None, *, detached: bool) -> None:
    folder.make()
    folder.hold()
    with os.fdopen(open_log(folder.own_log), "a", encoding="utf-8", buffering=1) as log:
        logs.configure("info", stream=log)
        progress = Progress(_say, clock=time.monotonic)

        def tell(report: Report) -> None:
            progress.show(report)
            if report.settled and not progress.summed_up and not detached:
                progress.summed_up = True
                _say("\n".join(summary(report, folder, ending="Ctrl-C stops everything.")))

        try:
            asyncio.run(_run(documents, folder, person, tell))
        except (ManifestError, StateDamaged, OSError):
            raise
        except Exception as error:
            logging.getLogger(__name__).exception("up ended by a bug")
            raise Failure(f"a bug: {type(error).__name__}; details are in {shown(folder.own_log)}") from error
        _say("Stopped.")


def _say(text: str) -> None:
    """Prints a line, if anybody still listens: what runs does not end because a terminal was closed."""
    try:
        click.echo(text)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _run(
    documents: tuple[Document, ...], folder: StateFolder, person: str | None, tell: Callable[[Report], None]
) -> None:
    stop, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        """The first signal ends everything in order, a second one at once."""
        if stop.is_set():
            hurry.set()
        else:
            stop.set()
            _say("Stopping.")

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ask)
    surroundings = Surroundings(now=lambda: datetime.now(UTC), find_program=_find_program, environment=os.environ)
    await Runner(folder, surroundings, person=person, tell=tell).run(documents, stop=stop, hurry=hurry)


def _detach(paths: tuple[Path, ...], folder: StateFolder, person: str | None, timeout: float) -> None:
    argv = [sys.executable, "-P", "-m", "demarkus_operator.cli.main", "up", "--detached"]
    argv += ["--state", str(folder.root)]
    for path in paths:
        argv += ["-f", str(path)]
    if person:
        argv += ["--as", person]
    folder.make()
    holder = folder.holder()
    if holder is not None:
        raise StateInUse(folder.root, holder)
    try:
        report = start_detached(argv, folder, timeout=timeout, show=click.echo)
    except NotReady as error:
        raise Failure(f"{error}; the logs are in {shown(folder.logs)}") from error
    except Ended as error:
        raise SystemExit(error.status) from error
    click.echo("\n".join(summary(report, folder, ending=f"{with_state('down', folder)} stops everything.")))


def _find_program(command: str) -> str:
    """A command of a container image, as it is installed beside us. Raises ValueError."""
    path = Path(sysconfig.get_path("scripts"), command)
    if not path.is_file():
        raise ValueError(f"{command} is not installed here; install demarkus[world,broker,operator]")
    return str(path)
