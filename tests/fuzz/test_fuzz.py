"""The fuzzing that has time in every run: the kept inputs, some thousands of new ones, and a short rain of datagrams.

`make fuzz` goes on for ten minutes.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tests.fuzz import corpus, live, matcher
from tests.fuzz.targets import TARGETS

RUNS = 10_000


@pytest.mark.parametrize("name", TARGETS)
def test_kept_inputs_hold(name):
    kept = corpus.load(name)
    assert kept
    for data in kept:
        TARGETS[name](data)


@pytest.mark.skipif(not importlib.util.find_spec("atheris"), reason="atheris has no build for this machine")
def test_new_inputs_hold(tmp_path):
    for number, name in enumerate(TARGETS):
        for i, data in enumerate(corpus.load(name)):
            (tmp_path / f"{name}-{i}").write_bytes(bytes([number]) + data)
    command = [sys.executable, "-m", "tests.fuzz.one", "any", tmp_path, "-seed=1", f"-runs={RUNS}", "-max_len=1024"]
    done = subprocess.run([*command, f"-artifact_prefix={tmp_path}/"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"Done {RUNS} runs" in done.stderr


def test_a_world_stands_a_rain_of_datagrams(tmp_path):
    report = live.run(tmp_path / "rain", go_on=lambda number: number < 2, seed=1)
    assert not report.problems, report
    assert report.answered > 20
    assert min(report.fallen.values()) > 0


def test_the_plain_matcher_knows_what_no_pattern_is():
    for pattern in ("/[", "/[]", "/[a", "/[a-]", "/a\\", "/**/a/**", "/a**", "/**/"):
        with pytest.raises(matcher.NoPattern):
            matcher.matches(pattern, "/a")
