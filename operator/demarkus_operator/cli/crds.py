"""`demarkus crds`: the CustomResourceDefinitions, from the models."""

from __future__ import annotations

from pathlib import Path

import click

from demarkus_operator.api.crd import rendered


@click.command()
@click.option("--output", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder to write to.")
def crds(output: Path) -> None:
    """Write the CustomResourceDefinitions of World and Universe, one file each."""
    output.mkdir(parents=True, exist_ok=True)
    for name, text in rendered().items():
        (output / name).write_text(text, encoding="utf-8")
        click.echo(output / name)
