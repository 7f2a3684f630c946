"""What `import` and `export` have in common: which store, who does it, how they end."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import click

from demarkus_world.control import user_name
from demarkus_world.transfer.report import Report
from demarkus_world.transfer.stores import Place

REFUSED, CHANGE_SOMETHING = 1, 2


def on_a_store(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that name a store, and `--json`; it is called with `store` and `as_json`."""

    @click.option(
        "--config",
        envvar="DEMARKUS_CONFIG",
        type=click.Path(path_type=Path, dir_okay=False),
        show_envvar=True,
        help="The world's configuration, world.yaml.",
    )
    @click.option(
        "--store",
        "mount",
        type=click.Path(path_type=Path, file_okay=False),
        help="Instead of a configuration: a folder with a store that nobody serves, as store.directory names it.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
    @functools.wraps(command)
    def wrapped(*, config: Path | None, mount: Path | None, **others: object) -> None:
        if mount is None and config is None:
            raise click.UsageError("name the world: --config FILE, or --store FOLDER")
        command(store=Place(config=None if mount else config, mount=mount), **others)

    return wrapped


def by() -> str:
    """Who does it, as the log names them."""
    return f"local:{user_name(os.getuid())}"


def conclude(report: Report, *, as_json: bool, dry_run: bool = False) -> None:
    """Print what became of it: counts on standard output, refusals at the end."""
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
        return
    if dry_run:
        click.echo("nothing was written: this is what would be")
    for sentence in report.sentences():
        click.echo(sentence)


def fail(verb: str, error: Exception, code: int) -> NoReturn:
    """End with a sentence on standard error."""
    for line in str(error).splitlines():
        click.echo(f"demarkus-world: {verb}: {line}", err=True)
    sys.exit(code)
