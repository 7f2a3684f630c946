"""The option by which commands take manifests."""

from __future__ import annotations

from pathlib import Path

import click

filename_option = click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    help="A manifest, or a folder of manifests. May be given several times.",
)
