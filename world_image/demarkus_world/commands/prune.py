"""`demarkus-world prune`: take the oldest versions of a document out of its history."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from demarkus_world.commands.keeping import as_json_too, run, with_config
from mark_protocol.times import parse_rfc3339


def _before(context: click.Context, parameter: click.Parameter, value: str | None) -> int | datetime | None:
    if value is None:
        return None
    if value.isascii() and value.isdigit() and 0 < int(value) < 1 << 63:
        return int(value)
    time = parse_rfc3339(value)
    if time is None:
        raise click.BadParameter(f"{value!r} is neither a version such as 12 nor a time such as 2026-01-01T00:00:00Z")
    return time


@click.command(name="prune")
@click.argument("path")
@with_config
@click.option(
    "--before",
    metavar="VERSION|TIME",
    callback=_before,
    help="Only versions before this one, or written before this time.",
)
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="All but the newest N versions.")
@click.option("--erase", is_flag=True, help="Delete their bodies at once instead of with a sweep after the grace.")
@as_json_too
def command(
    path: str, config: Path, before: int | datetime | None, keep: int | None, erase: bool, as_json: bool
) -> None:
    """Take the oldest versions of the document at PATH out of its history. The newest one always stays.

    The history says from then on that they were pruned, by whom, and which hash the last of them had. Floors and holds
    of the configuration (`retention`) forbid it.
    """
    if before is None and keep is None:
        raise click.UsageError("say which versions go: --before, --keep, or both")
    asked: dict[str, Any] = {"command": "prune", "path": path, "keep": keep, "erase": erase}
    if isinstance(before, datetime):
        asked["older_than"] = int(before.timestamp() * 1000)
    else:
        asked["before"] = before
    run(config, asked, as_json=as_json, in_words=_in_words)


def _in_words(done: Mapping[str, Any]) -> str:
    path, newest = done["path"], done["newest"]
    if "first" not in done:
        text = f"{path}: nothing to prune; its newest version is {newest}"
    elif done["first"] == done["last"]:
        text = f"{path}: version {done['first']} pruned; its newest version is {newest}"
    else:
        text = f"{path}: versions {done['first']} to {done['last']} pruned; its newest version is {newest}"
    return f"{text}\n{done['deleted']} bodies erased" if "deleted" in done else text
