"""Metadata on the command line: KEY=VALUE."""

from __future__ import annotations

from collections.abc import Iterable

import click


def key_values(texts: Iterable[str]) -> dict[str, str]:
    """The pairs of repeated KEY=VALUE options; ends the command with a usage error for anything else."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise click.UsageError(f"metadata {text!r}: expected KEY=VALUE")
        if key in pairs:
            raise click.UsageError(f"metadata {key!r} is given twice")
        pairs[key] = value
    return pairs
