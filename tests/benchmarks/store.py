"""`python -m tests.benchmarks.store`: figures of the store engine on this machine; asserts nothing about time.

Prints a table while it goes, and all figures as one JSON line at the end. `--documents 1000 --versions 10000
--seconds 1` tries it out in a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from tests.benchmarks.bulk import Size
from tests.benchmarks.commits import rates
from tests.benchmarks.opening import starts


def tell(row: dict[str, Any]) -> None:
    """One row of the table."""
    name, *figures = row.items()
    print(f"{name[1]:<36}" + "  ".join(f"{what} {value}" for what, value in figures), flush=True)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.store", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each rate of commits is measured")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--versions", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path, help="a folder on the disk to measure (default: the temporary one)")
    parser.add_argument("--only", choices=("commits", "starts"))
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    if options.only != "starts":
        figures["commits"] = asyncio.run(rates(seconds=options.seconds, where=options.directory, tell=tell))
    if options.only != "commits":
        figures["starts"] = starts(Size(options.documents, options.versions), where=options.directory, tell=tell)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
