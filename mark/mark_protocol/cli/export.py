"""`mark export`."""

from __future__ import annotations

import asyncio
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import click

from mark_protocol.cli.output import echo_json
from mark_protocol.cli.progress import Progress
from mark_protocol.cli.server import Server, on_a_server
from mark_protocol.client.client import MarkClient
from mark_protocol.client.walk import documents
from mark_protocol.status import Status


@dataclass(slots=True)
class _Report:
    written: int = 0
    same: int = 0
    failures: list[str] = field(default_factory=list)


@click.command()
@on_a_server
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--overwrite", is_flag=True, help="Replace files that hold something else.")
def export(server: Server, folder: Path, overwrite: bool) -> None:
    """Write the documents below a directory, or one, into FOLDER as files: their newest text, without metadata.

    Files that are there and hold the same are left alone, so an export that broke off is simply run again. Nothing is
    deleted. Exit status 1: something could not be fetched or written, as listed on standard error.
    """
    report = _Report()
    start = server.url.path
    with Progress("documents exported") as progress:

        async def work(client: MarkClient) -> None:
            if start.endswith(".md"):
                await _take(client, start, folder / start.rpartition("/")[2], report, overwrite=overwrite)
                return
            async for path in documents(client, start):
                file = folder / path[len(start.rstrip("/")) + 1 :]
                await _take(client, path, file, report, overwrite=overwrite)
                progress.step()

        server.run(work)
    if server.json:
        echo_json({"written": report.written, "unchanged": report.same, "failures": report.failures})
    else:
        click.echo(f"{report.written} written, {report.same} unchanged, {len(report.failures)} failed")
        for failure in report.failures:
            click.echo(failure.encode(errors="backslashreplace"), err=True)
    if report.failures:
        raise SystemExit(1)


async def _take(client: MarkClient, path: str, file: Path, report: _Report, *, overwrite: bool) -> None:
    response = await client.fetch(path)
    if response.status != Status.OK:
        report.failures.append(f"{path}: {response.status}: {response.message}")
        return
    try:
        written = await asyncio.to_thread(_place, file, response.body, overwrite=overwrite)
    except (OSError, ValueError) as error:
        report.failures.append(f"{path}: {getattr(error, 'strerror', None) or error}")
        return
    report.written += written
    report.same += not written


def _place(file: Path, data: bytes, *, overwrite: bool) -> bool:
    """Whether something had to be written. Raises OSError."""
    if file.is_file() and file.read_bytes() == data:
        return False
    if (file.exists() or file.is_symlink()) and not overwrite:
        raise FileExistsError(None, f"{file} holds something else; --overwrite replaces it")
    _write(file, data)
    return True


def _write(file: Path, data: bytes) -> None:
    """A whole file or none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.parent / f".{secrets.token_hex(8)}.part"
    try:
        fresh.write_bytes(data)
        os.replace(fresh, file)
    finally:
        with suppress(FileNotFoundError):
            fresh.unlink()
