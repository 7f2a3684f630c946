"""The inputs that are kept: `corpus/TARGET.jsonl`, one a line, as JSON text whose characters are the bytes.

`python -m tests.fuzz.corpus FOLDER` adds what a campaign left there: of each target the smallest inputs that reach what
no smaller one does, and no more than a few dozen.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import mark_protocol
from tests.fuzz.targets import TARGETS, Target

FOLDER = Path(__file__).with_name("corpus")
OURS = str(Path(mark_protocol.__file__).parent)
LONGEST = 512
MOST = 80


def load(name: str) -> list[bytes]:
    """The kept inputs of a target."""
    path = FOLDER / f"{name}.jsonl"
    return [json.loads(line).encode("latin-1") for line in path.read_text().splitlines()] if path.exists() else []


def save(name: str, inputs: Iterable[bytes]) -> None:
    """Keep these."""
    kept = sorted(set(inputs), key=lambda data: (len(data), data))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.jsonl").write_text("".join(json.dumps(data.decode("latin-1")) + "\n" for data in kept))


def unpack(name: str, folder: Path) -> None:
    """As a folder of files, which is what libFuzzer reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(load(name)):
        (folder / f"kept-{number:03}").write_bytes(data)


def reached(target: Target, data: bytes) -> set[tuple[str, int, int]]:
    """The steps from line to line that our code takes for an input."""
    steps: set[tuple[str, int, int]] = set()
    last = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal last
        name = frame.f_code.co_filename
        if not name.startswith(OURS):
            return None
        if event == "line":
            steps.add((name, last, frame.f_lineno))
            last = frame.f_lineno
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        target(data)
    finally:
        sys.settrace(before)
    return steps


def main() -> None:
    """Choose."""
    for name, target in TARGETS.items():
        found = [path.read_bytes() for path in (Path(sys.argv[1]) / name).glob("*")]
        kept: list[bytes] = []
        seen: set[tuple[str, int, int]] = set()
        for data in sorted({*load(name), *found}, key=lambda data: (len(data), data)):
            if len(data) > LONGEST or len(kept) == MOST:
                break
            steps = reached(target, data)
            if not steps <= seen:
                seen |= steps
                kept.append(data)
        save(name, kept)
        print(f"{name}: {len(kept)} inputs, {len(seen)} steps")


if __name__ == "__main__":
    main()
