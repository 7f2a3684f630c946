"""`demarkus-world export`: a store as the tree of a Go server.

Exit codes: 0 = all of it is there, 1 = something was refused or the export broke off, 2 = usage or configuration.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from pathlib import Path

import click

from demarkus_base.blobs.port import BlobError
from demarkus_base.settings import SettingsError
from demarkus_world.commands.transfers import CHANGE_SOMETHING, REFUSED, conclude, fail, on_a_store
from demarkus_world.engine.engine import EngineError
from demarkus_world.transfer import progress
from demarkus_world.transfer.exporting import Export
from demarkus_world.transfer.model import SourceError
from demarkus_world.transfer.report import Report
from demarkus_world.transfer.stores import Place, opened


@click.command(name="export")
@click.argument("target", type=click.Path(path_type=Path, file_okay=False))
@on_a_store
def command(target: Path, store: Place, as_json: bool) -> None:
    """Write a world as the content root of a Go server into TARGET: every retained version, byte for byte.

    TARGET is a new or empty folder, or an earlier export, which is completed. What is there and differs is never
    overwritten. A store on a volume is taken for the time of the export: stop its world first.

    Exit code 0: everything is there. 1: something was refused, as listed, or it broke off. 2: something has to change.
    """
    report = Report()
    try:
        asyncio.run(_export(target, report, store=store))
    except SettingsError as error:
        fail("export", error, CHANGE_SOMETHING)
    except (SourceError, BlobError, EngineError) as error:
        conclude(report, as_json=as_json)
        fail("export", error, REFUSED)
    conclude(report, as_json=as_json)
    sys.exit(REFUSED if report.refused else 0)


async def _export(target: Path, report: Report, *, store: Place) -> None:
    async with opened(store, must_exist=True) as (engine, _):
        with closing(Export(engine, target, report)) as work:

            def state() -> progress.State:
                return progress.State(
                    verb="exporting",
                    done=work.looked_at,
                    total=work.total,
                    versions=report.versions,
                    refused=report.refused,
                )

            async with progress.shown(state, sys.stderr):
                await work.run()
