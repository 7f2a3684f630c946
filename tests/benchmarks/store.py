"""`python -m tests.benchmarks.store`: figures of the store engine on this machine; asserts nothing about time.

Prints a table while it goes, and all figures as one JSON line at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from tests.benchmarks.commits import rates


def tell(row: dict[str, Any]) -> None:
    """One row of the table."""
    print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.store", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each rate of commits is measured")
    parser.add_argument("--directory", type=Path, help="a folder on the disk to measure (default: the temporary one)")
    options = parser.parse_args()
    figures = {"commits": asyncio.run(rates(seconds=options.seconds, where=options.directory, tell=tell))}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
