"""The option by which commands take manifests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def filename_option(*, required: bool = True, otherwise: str = "") -> Callable[[Any], Any]:
    """`-f`, for the parameter `paths`; `otherwise` says what counts without it."""
    help_ = "A manifest, or a folder of manifests. May be given several times."
    return click.option(
        "-f",
        "--filename",
        "paths",
        multiple=True,
        required=required,
        type=click.Path(path_type=Path),
        help=f"{help_} {otherwise}".rstrip(),
    )
