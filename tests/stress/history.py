"""Histories as files: one line when an operation is called, one when it ended, so that a death loses only the end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.stress.register import Operation

NOTHING_DONE = "nothing done"
"""The outcome of an operation that certainly did not happen and of a read that saw nothing: no part of a history."""

DAMAGED = "damaged"
"""The outcome of an operation that met a store which is not what it should be: a false alarm."""


def operations(files: Iterable[Path]) -> Iterator[Operation]:
    """The operations of several writers; a last line that is not whole is left out."""
    for file in files:
        begun: dict[str, dict[str, Any]] = {}
        for line in file.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                record = json.loads(line)
                begun.setdefault(record["name"], {}).update(record)
        yield from (Operation(**record) for record in begun.values())
