"""How a response is shown. The text goes to standard output, a refusal to standard error."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping

import click

from mark_protocol.response import Response
from mark_protocol.status import Status

NOTES = ("policy-warning", "proposal")
"""Keys of answers to writes that their sender should see: what a policy has to say, and what it made of the write."""

DONE = frozenset({Status.OK, Status.CREATED, Status.NOT_MODIFIED})


def show(
    response: Response, *, as_json: bool, summary: str | None = None, more: Mapping[str, object] | None = None
) -> None:
    """Print a response, or `summary` in place of its body; end the command with status 1 if it is a refusal.

    `more` is what JSON holds beside status, metadata and body.
    """
    done = response.status in DONE
    if as_json:
        echo_json({**_document(response), **(more or {})})
    elif done and summary is not None:
        click.echo(summary)
    elif done:
        sys.stdout.buffer.write(response.body)
        sys.stdout.buffer.flush()
    if response.status == Status.NOT_MODIFIED and not as_json:
        click.echo(response.status, err=True)
    for note in (key for key in NOTES if key in response.metadata and not as_json):
        click.echo(f"{note}: {response.metadata[note]}", err=True)
    if not done:
        click.echo(f"{response.status}: {response.message}", err=True)
        raise SystemExit(1)


def written(response: Response) -> str:
    """One line about a write."""
    version = response.metadata.get("version", "?")
    modified = response.metadata.get("modified")
    return f"{response.status}: version {version}" + (f", {modified}" if modified else "")


def _document(response: Response) -> dict[str, object]:
    shown: dict[str, object] = {"status": response.status, "metadata": dict(response.metadata)}
    try:
        shown["body"] = response.body.decode()
    except UnicodeDecodeError:
        shown["bodyBase64"] = base64.b64encode(response.body).decode()
    return shown


def echo_json(value: object) -> None:
    """Print a value for programs; text that is no UTF-8 is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    click.echo(text.encode(errors="backslashreplace"))
