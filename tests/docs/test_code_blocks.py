"""The steps of the how-to pages are run as they are written, and say what the page says.

A block marked `sh run` is run, all of a page in one shell; `text expect` lists lines that the block before printed,
with `…` for what differs from time to time; `python file=NAME` is written to that file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
SECONDS = 120
END = "=== end of block"


@dataclass
class Step:
    """A block to run, its line in the page, and the lines it should print."""

    script: str
    line: int
    expected: list[str] = field(default_factory=list)


def steps(page: Path, folder: Path) -> list[Step]:
    """The steps of a page; files that it shows are written into `folder`."""
    found: list[Step] = []
    for token in MarkdownIt().parse(page.read_text()):
        if token.type != "fence":
            continue
        match token.info.split():
            case ["sh", "run"]:
                found.append(Step(token.content, token.map[0] + 1 if token.map else 0))
            case ["text", "expect"]:
                found[-1].expected += token.content.splitlines()
            case ["python", file]:
                (folder / file.removeprefix("file=")).write_text(token.content)
    return found


def prints(output: str, expected: str) -> bool:
    """Whether a line of the output is what a page says."""
    pattern = r"\s*".join(".*".join(map(re.escape, word.split("…"))) for word in expected.split())
    return any(re.search(pattern, line) for line in output.splitlines())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    todo = steps(page, tmp_path)
    assert todo, "a how-to has steps that run"
    script = "exec 2>&1\nset -euo pipefail\ntrap 'demarkus down > /dev/null' EXIT\n"
    script += "\n".join(f"{step.script}\necho '{END}'" for step in todo)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DEMARKUS_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, timeout=SECONDS
    )
    outputs = done.stdout.split(f"{END}\n")
    for step, output in zip(todo, outputs, strict=False):
        missing = [line for line in step.expected if not prints(output, line)]
        assert not missing, f"{page.name}:{step.line}: {missing} is not in:\n{output}"
    assert done.returncode == 0, f"{page.name}: the block after {len(outputs) - 1} failed:\n{outputs[-1]}"
    assert len(outputs) == len(todo) + 1
