"""The operator's chart, rendered."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.chart import CHART

NAMESPACE = "demarkus-system"
SECONDS = 60

Render = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def run(helm: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs helm."""

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([helm, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)

    return run


@pytest.fixture(scope="session")
def render(run: Callable[..., subprocess.CompletedProcess[str]]) -> Render:
    """Renders the chart with these `--set` values: the objects, in the order of the output."""

    def render(*values: str) -> list[dict[str, Any]]:
        done = run(
            "template", "operator", CHART, "--namespace", NAMESPACE, *(f"--set-json={value}" for value in values)
        )
        assert done.returncode == 0, done.stderr
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    return render
