"""`demarkus-world verify`: read a store as it is, beside the world that writes it or without one, and judge it.

Exit codes: 0 = intact, 1 = something was altered or lost, 2 = it could not be checked.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from demarkus_base.blobs.port import BlobError
from demarkus_base.settings import SettingsError
from demarkus_world.engine.notes import KeyFault, public_key
from demarkus_world.engine.refusals import EngineError
from demarkus_world.engine.verify.verify import CannotVerify, Expected, Report, verify
from demarkus_world.settings import Store, parse_settings
from demarkus_world.stores import open_for_reading

INTACT, FOUND, UNCHECKED = 0, 1, 2


@click.command(name="verify")
@click.option(
    "--config",
    envvar="DEMARKUS_CONFIG",
    type=click.Path(path_type=Path, dir_okay=False),
    show_envvar=True,
    help="The world's configuration, world.yaml; of it only name, identity, store and expect are used.",
)
@click.option(
    "--store",
    "mount",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder that a store lies in, instead of a configuration; then it is taken for what it says it is.",
)
@click.option(
    "--note",
    "note_files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A note that the world signed earlier and that was kept elsewhere; may be given several times.",
)
@click.option(
    "--key",
    "key_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The world's key, public or private, in PEM; otherwise identity.keyFile is used.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    config: Path | None, mount: Path | None, note_files: Sequence[Path], key_file: Path | None, as_json: bool
) -> None:
    """Read every entry and every stored version of a world and say whether anything was altered or lost.

    Exit code 0: intact. 1: something is wrong, and what. 2: it could not be checked.
    """
    try:
        notes = [(str(file), _read(file).decode(errors="replace")) for file in note_files]
        if mount is not None:
            name, store = mount.name, Store(directory=mount)
            expected = Expected(key=_key(None, key_file, needed=bool(notes)), witnessed=notes)
        elif config is not None:
            settings = parse_settings(_read(config), source=str(config))
            name, store = settings.name, settings.store
            expected = Expected(
                history=settings.identity.history,
                key=_key(settings.identity.key_file, key_file, needed=bool(notes)),
                witnessed=notes,
                size=settings.expect.min_size if settings.expect else 0,
            )
        else:
            raise click.UsageError("give --config or --store")
        report = asyncio.run(_verify(store, expected))
    except (SettingsError, BlobError, EngineError, CannotVerify, KeyFault) as error:
        for line in str(error).splitlines():
            click.echo(f"demarkus-world: not verified: {line}", err=True)
        sys.exit(UNCHECKED)
    click.echo(json.dumps(report.as_json(), indent=2) if as_json else _in_words(name, report))
    sys.exit(INTACT if report.intact else FOUND)


async def _verify(store: Store, expected: Expected) -> Report:
    blobs = await open_for_reading(store)
    shown = sys.stderr.isatty()

    def told(what: str, done: int) -> None:
        if shown:
            click.echo(f"\r{what} read: {done:,}  ", err=True, nl=False)

    try:
        return await verify(blobs, expected, pause=asyncio.sleep, told=told)
    finally:
        if shown:
            click.echo("\r\x1b[K", err=True, nl=False)
        await blobs.close()


def _key(configured: Path | None, file: Path | None, *, needed: bool) -> Ed25519PublicKey | None:
    """The world's public key. Raises CannotVerify when it is needed, or named, and can't be had."""
    named = file or configured
    if named is None:
        return None
    try:
        return public_key(_read(named))
    except (KeyFault, CannotVerify) as error:
        if needed or file:
            raise CannotVerify(str(error) if isinstance(error, CannotVerify) else f"{named}: {error}") from None
        click.echo(f"demarkus-world: checkpoints are not looked at, their key can't be read: {error}", err=True)
        return None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CannotVerify(f"{file}: {error.strerror}") from None


def _in_words(name: str, report: Report) -> str:
    lines = [
        f"world {name}, history {report.history}, incarnation {report.incarnation or 'unknown'}",
        f"read: {report.entries:,} entries, {report.documents:,} documents, "
        f"{report.versions:,} versions ({report.stored_bytes:,} bytes), "
        f"{report.checkpoints} checkpoints, {report.notes} notes",
    ]
    if report.root is not None:
        lines.append(f"root: {report.root}")
    for entry in report.restores:
        lost = f", {entry.lost:,} entries known to be lost" if entry.lost else ""
        lines.append(f"restored at entry {entry.seq:,} from incarnation {entry.parent}{lost}")
    for finding in report.findings:
        lines += ["", f"{finding.fault}: {finding.text}", f"  object: {finding.object}"]
        named = {"entry": finding.entry, "field": finding.field}
        lines += [f"  {what}: {value}" for what, value in named.items() if value is not None]
    if report.total > len(report.findings):
        lines += ["", f"and {report.total - len(report.findings):,} more"]
    for path in report.unchecked[:10]:
        lines.append(f"not compared, because an entry of it is impossible: {path}")
    lines += ["", "intact" if report.intact else f"NOT INTACT: {report.total:,} findings"]
    return "\n".join(lines)
