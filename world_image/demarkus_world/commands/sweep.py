"""`demarkus-world sweep`: delete from the store what nothing refers to any more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from demarkus_world.commands.keeping import as_json_too, run, with_config


@click.command(name="sweep")
@with_config
@as_json_too
def command(config: Path, as_json: bool) -> None:
    """Delete from the store what no retained version needs: pruned bodies, and what interrupted writes left.

    What is found now is deleted after the grace (`retention.grace`), by the world itself or by a later sweep; what an
    earlier sweep found is deleted now if its time has come. A world sweeps by itself once a day.
    """
    run(config, {"command": "sweep"}, as_json=as_json, in_words=_in_words)


def _in_words(done: Mapping[str, Any]) -> str:
    lines = [f"{done['deleted']} bodies deleted"]
    if "due" in done:
        due = datetime.fromtimestamp(done["due"] / 1000, UTC)
        lines.append(f"{done['found']} more are not needed; they can be deleted from {due:%Y-%m-%dT%H:%M:%SZ} on")
    return "\n".join(lines)
