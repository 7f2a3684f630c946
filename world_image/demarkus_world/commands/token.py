"""`demarkus-world token`: entries of a file of capability tokens, made and listed.

The file is that of the Go server (Mark protocol 9.1). It holds hashes: a token is shown once, when it is made.
Exit codes: 0 = done, 1 = the file can't be written, 2 = usage, or a file that can't be used.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import click

from mark_protocol.patterns import PatternError, check_pattern, literal_prefix_warning
from mark_protocol.times import format_rfc3339, parse_rfc3339
from mark_protocol.tokens import (
    OPERATIONS,
    CapabilityToken,
    TokenFileError,
    TokenSet,
    hash_token,
    new_token,
    parse_tokens,
    render_entry,
)

FAILED, CHANGE_SOMETHING = 1, 2

_SPAN = re.compile(r"([1-9][0-9]{0,5})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class _Words(click.ParamType[tuple[str, ...]]):
    """Operations, separated by commas."""

    name = "WORD,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        words = tuple(filter(None, (word.strip() for word in str(value).split(","))))
        for word in words:
            if word not in OPERATIONS:
                self.fail(f"{word!r} is none of {', '.join(OPERATIONS)}", param, ctx)
        return words


class _Pattern(click.ParamType[str]):
    name = "PATTERN"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        pattern = str(value)
        try:
            check_pattern(pattern)
        except PatternError as error:
            self.fail(f"{pattern!r}: {error}", param, ctx)
        if not pattern.startswith("/"):
            self.fail(f"{pattern!r}: a pattern begins with /, as in /notes/**", param, ctx)
        return pattern


class _Expiry(click.ParamType[datetime]):
    name = "TIME|SPAN"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        if span := _SPAN.fullmatch(str(value)):
            return datetime.now(UTC) + timedelta(**{_UNITS[span[2]]: int(span[1])})
        instant = parse_rfc3339(str(value))
        if instant is None:
            self.fail(f"{value!r}: expected 2027-01-01T00:00:00Z, or a span such as 90d", param, ctx)
        return instant


_file = click.option(
    "--tokens",
    "file",
    envvar="DEMARKUS_TOKENS",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    show_envvar=True,
    help="The token file.",
)


@click.group(name="token")
def command() -> None:
    """Make and list the entries of a file of capability tokens."""


@command.command()
@click.argument("label")
@_file
@click.option("--path", "paths", type=_Pattern(), multiple=True, required=True, help="What it is for. Repeatable.")
@click.option(
    "--operations", type=_Words(), required=True, help=f"What it permits, with commas: {', '.join(OPERATIONS)}."
)
@click.option("--expires", type=_Expiry(), help="When it ends: an RFC 3339 time, or a span from now such as 90d.")
def make(label: str, file: Path, paths: tuple[str, ...], operations: tuple[str, ...], expires: datetime | None) -> None:
    """Add a token named LABEL to the file, and print the token. It is not kept: nobody can print it again.

    The file is made if it is not there, readable by its owner alone; other entries stay as they are.
    """
    if not label or not label.isprintable() or label.startswith("sha256-"):
        raise click.UsageError("LABEL is a name for the log, such as kettle-laptop")
    raw = new_token(secrets.token_bytes)
    token = CapabilityToken(label, hash_token(raw), paths, frozenset(operations), expires)
    file = Path(os.path.realpath(file))
    try:
        with _alone(file.parent):
            text = _text(file)
            if any(other.label == label for other in _parsed(text, file).tokens):
                _fail(f"{file}: there is a token {label!r} already; choose another label", CHANGE_SOMETHING)
            text += ("\n" if text and not text.endswith("\n") else "") + render_entry(token)
            _parsed(text, file)
            _replace(file, text)
    except OSError as error:
        _fail(f"{file}: {error.strerror or error}", FAILED)
    for warning in filter(None, map(literal_prefix_warning, paths)):
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"added to {file}; this is the only time the token is shown", err=True)
    click.echo(raw)


@command.command("list")
@_file
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(file: Path, as_json: bool) -> None:
    """List the entries of the file: label, operations, paths, end. Hashes are left out."""
    try:
        tokens = _parsed(file.read_text(encoding="utf-8"), file)
    except (OSError, UnicodeDecodeError) as error:
        _fail(f"{file}: {getattr(error, 'strerror', None) or error}", CHANGE_SOMETHING)
    now = datetime.now(UTC)
    entries = [
        {
            "label": token.label,
            "operations": sorted(token.operations),
            "paths": list(token.paths),
            "expires": None if token.expires is None else format_rfc3339(int(token.expires.timestamp() * 1000)),
            "expired": token.expired(now),
        }
        for token in tokens.tokens
    ]
    if as_json:
        click.echo(json.dumps(entries, ensure_ascii=False, indent=2))
    else:
        for entry, token in zip(entries, tokens.tokens, strict=True):
            end = f"until {entry['expires']}" if entry["expires"] else "for ever"
            end += ", expired" if entry["expired"] else ""
            click.echo(f"{token.label}\t{','.join(sorted(token.operations))}\t{' '.join(token.paths)}\t{end}")
    for warning in tokens.warnings:
        click.echo(f"warning: {warning}", err=True)


def _parsed(text: str, file: Path) -> TokenSet:
    try:
        return parse_tokens(text, source=str(file))
    except TokenFileError as error:
        _fail(str(error), CHANGE_SOMETHING)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        _fail(f"{file}: not valid UTF-8", CHANGE_SOMETHING)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder against other calls of this command."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
        os.fsync(opened)
    finally:
        os.close(opened)


def _replace(file: Path, text: str) -> None:
    """Put a new content into the file's place at once, for its owner alone."""
    fresh = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as written:
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        fresh.replace(file)
    finally:
        with suppress(FileNotFoundError):
            fresh.unlink()


def _fail(sentence: str, code: int) -> NoReturn:
    click.echo(f"demarkus-world: token: {sentence}", err=True)
    sys.exit(code)
