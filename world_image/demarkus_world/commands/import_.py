"""`demarkus-world import`: documents of a Go server, of any server, of git or of a folder, byte for byte.

Exit codes: 0 = all of it is here, 1 = something was refused or the import broke off, 2 = usage or configuration.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from demarkus_base.blobs.port import BlobError
from demarkus_base.settings import SettingsError
from demarkus_world.commands.transfers import CHANGE_SOMETHING, REFUSED, by, conclude, fail, on_a_store
from demarkus_world.engine.engine import EngineError
from demarkus_world.transfer import progress
from demarkus_world.transfer.importing import Import
from demarkus_world.transfer.model import SourceError
from demarkus_world.transfer.report import Report
from demarkus_world.transfer.sources import Kind, Wanted, source
from demarkus_world.transfer.stores import Place, opened
from mark_protocol.paths import clean, has_parent_segment
from mark_protocol.transport.port import Trust


@click.command(name="import")
@click.argument("place", metavar="SOURCE")
@on_a_store
@click.option("--as", "kind", type=click.Choice([kind.value for kind in Kind]), help="What SOURCE is; else seen.")
@click.option("--into", default="/", show_default=True, help="Put everything below this directory of the world.")
@click.option("--revision", default="HEAD", show_default=True, help="Of a git repository: the newest commit to take.")
@click.option("--token", envvar="DEMARKUS_AUTH", help="To a server: the credential to send.  [env: DEMARKUS_AUTH]")
@click.option(
    "--ca",
    envvar="DEMARKUS_CA",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="To a server: trust the roots in this PEM file instead of the public ones.  [env: DEMARKUS_CA]",
)
@click.option("--insecure", is_flag=True, help="To a server: accept any certificate.")
@click.option("--dry-run", is_flag=True, help="Do everything but write.")
def command(
    place: str,
    store: Place,
    kind: str | None,
    into: str,
    revision: str,
    token: str | None,
    ca: Path | None,
    insecure: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Bring the documents of SOURCE into a world, with every version, byte for byte.

    SOURCE is the content root of a Go server, a running server (mark://host[:port][/path]), a git repository, or a
    plain folder. What is here already is passed over, so an import that broke off is simply run again. A store on a
    volume is taken for the time of the import: stop its world first.

    Exit code 0: everything is here. 1: something was refused, as listed, or it broke off. 2: something has to change.
    """
    if not into.startswith("/") or has_parent_segment(into):
        raise click.UsageError("--into names a directory of the world, such as /archive")
    trust = Trust(roots=ca.read_bytes() if ca and not insecure else None, insecure=insecure)
    wanted = Wanted(place=place, kind=Kind(kind) if kind else None, revision=revision, token=token or None, trust=trust)
    report = Report()
    try:
        asyncio.run(_import(wanted, report, store=store, into=clean(into), dry_run=dry_run))
    except SettingsError as error:
        fail("import", error, CHANGE_SOMETHING)
    except (SourceError, BlobError, EngineError) as error:
        conclude(report, as_json=as_json, dry_run=dry_run)
        fail("import", error, REFUSED)
    conclude(report, as_json=as_json, dry_run=dry_run)
    sys.exit(REFUSED if report.refused else 0)


async def _import(wanted: Wanted, report: Report, *, store: Place, into: str, dry_run: bool) -> None:
    async with source(wanted, report) as found, opened(store, dry_run=dry_run) as (engine, compatible):
        click.echo(f"importing from {wanted.place}, a {found.name}", err=True)
        work = Import(engine, found, report, by=by(), into=into, compatible=compatible)

        def state() -> progress.State:
            return progress.State(
                verb="importing",
                done=work.looked_at,
                total=work.total,
                versions=report.versions,
                refused=report.refused,
            )

        async with progress.shown(state, sys.stderr):
            await work.run()
