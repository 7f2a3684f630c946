"""Where the text of a write comes from: an option, a file, or standard input, but never a waiting terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

import click

from mark_protocol import limits


def read_body(file: Path | None, text: str | None) -> bytes:
    """The body. Two sources, none, or too much of it end the command with a usage error."""
    if file is not None and text is not None:
        raise click.UsageError("give FILE or --body, not both")
    if text is not None:
        return text.encode()
    if file is not None and str(file) != "-":
        try:
            with file.open("rb") as stream:
                return _limited(stream)
        except OSError as error:
            raise click.UsageError(f"{file}: {error.strerror or error}") from error
    if file is None and sys.stdin.isatty():
        raise click.UsageError("no text: name a FILE, use --body, or pipe it in (FILE - reads what you type)")
    return _limited(sys.stdin.buffer)


def _limited(stream: BinaryIO) -> bytes:
    body = stream.read(limits.BODY + 1)
    if len(body) > limits.BODY:
        raise click.UsageError(f"the text is longer than {limits.BODY} bytes, which is what a document can have")
    return body
