"""What the commands share: the state folder's option, failures, and how commands are written for people to copy."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from demarkus_operator.local.state import DEFAULT, StateFolder


class Failure(click.ClickException):
    """Ends a command with a line on standard error: it did not work here and now."""

    exit_code = 1


class Mistake(Failure):
    """The command line or the manifests have to be changed."""

    exit_code = 2


class NothingRuns(Failure):
    """Asked about something that runs, and nothing does."""

    exit_code = 3


class _State(click.ParamType[StateFolder]):
    name = "DIR"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> StateFolder:
        return value if isinstance(value, StateFolder) else StateFolder.at(Path(str(value)))


state_option = click.option(
    "--state",
    "folder",
    type=_State(),
    default=str(DEFAULT),
    show_default=True,
    help="The folder that holds stores, keys, ports and logs.",
)


def shown(path: Path) -> str:
    """A path as short as it can be written from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def runnable(command: str) -> str:
    """How one of our commands is called from the shell at hand: by name, or by path if its folder is not searched."""
    ours = Path(sys.executable).with_name(command)
    found = shutil.which(command)
    return command if found and Path(found).resolve() == ours.resolve() else shown(ours)


def with_state(command: str, folder: StateFolder) -> str:
    """One of our commands with `--state`, if it needs to be said."""
    default = folder == StateFolder.at(DEFAULT)
    return f"{runnable('demarkus')} {command}" + ("" if default else f" --state {shlex.quote(shown(folder.root))}")


def aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """A table as lines."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
