"""`mark verify`."""

from __future__ import annotations

import click

from mark_protocol.cli.output import echo_json
from mark_protocol.cli.progress import Progress
from mark_protocol.cli.server import Server, on_a_server
from mark_protocol.client import verification
from mark_protocol.client.client import MarkClient
from mark_protocol.client.verification import History
from mark_protocol.client.walk import documents


@click.command()
@on_a_server
def verify(server: Server) -> None:
    """Check the history of a document, or of all documents below a directory.

    Every retained version is fetched, the bytes that the server must have stored are rebuilt from it and from the
    version before, and their hash is compared with what the server says. Exit status 1: something does not fit.
    """
    path = server.url.path
    with Progress("versions checked") as progress:

        async def work(client: MarkClient) -> list[History]:
            if path.endswith(".md"):
                return [await verification.verify(client, path, looked_at=progress.step)]
            found: list[History] = []
            async for document in documents(client, path, archived=True):
                found.append(await verification.verify(client, document, looked_at=progress.step))
            return found

        found = server.run(work)
    findings = sum(len(history.findings) for history in found)
    if server.json:
        echo_json({"documents": list(map(_as_json, found)), "intact": not findings})
    else:
        for history in found:
            _tell(history)
        versions = sum(len(history.versions) for history in found)
        click.echo(f"{len(found)} documents, {versions} versions, {findings} findings", err=True)
    if findings:
        raise SystemExit(1)


def _tell(history: History) -> None:
    path = history.path.encode(errors="backslashreplace").decode()
    count = len(history.versions)
    span = f"v{history.versions[0]}-v{history.versions[-1]}" if count else "no versions"
    word = click.style("broken", fg="red") if history.findings else click.style("intact", fg="green")
    click.echo(f"{word} {path} {span} {history.etag}".rstrip())
    for finding in history.findings:
        click.echo(f"       {finding}")
    for number in history.unproven:
        click.echo(f"       v{number}: the first that is left, and nobody says what was before it: only its body fits")


def _as_json(history: History) -> dict[str, object]:
    return {
        "path": history.path,
        "versions": history.versions,
        "etag": history.etag,
        "intact": not history.findings,
        "findings": history.findings,
        "unproven": history.unproven,
    }
