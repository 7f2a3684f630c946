"""Runs every check and test and says how long each part took (`make test`, `make test-all`).

Two lanes run side by side, one for each core of a small machine. One begins with the Kubernetes
control plane (10 to 30 minutes with a cold cache, at once with a warm one) and the tests that need
it; everything else, one folder of `tests/` after the other, is taken by whichever lane is free. A
part's output is shown when it ends. With `--no-skips` a skipped test is a failure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
NEEDS_CONTROL_PLANE = ("cluster",)
NOT_RUN_HERE = ("benchmarks",)


@dataclass(frozen=True, slots=True)
class Part:
    """One row of the closing table: a name and the commands that make it up."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    counts_tests: bool = False


@dataclass(slots=True)
class Result:
    """What a part did: seconds it took, whether it held, and the tests it counted."""

    part: Part
    seconds: float = 0.0
    failed: bool = False
    counts: dict[str, int] = field(default_factory=lambda: {"passed": 0, "failed": 0, "skipped": 0})
    skip_reasons: set[str] = field(default_factory=set)


def checks() -> list[Part]:
    """The parts that look at the code without running it."""
    return [
        Part("lint", ((f"{BIN}/ruff", "check", "."), (f"{BIN}/ruff", "format", "--check", "."))),
        Part("types", ((f"{BIN}/mypy",),)),
    ]


def folder(name: str) -> Part:
    """The tests of one folder."""
    return Part(name, ((sys.executable, "-m", "pytest", "-q", "--no-header", f"tests/{name}"),), counts_tests=True)


def control_plane() -> list[Part]:
    """What has to run in this order: build the control plane, then use it."""
    build = Part("control-plane", ((sys.executable, "-m", "dev.cluster.build", "--or-skip"),))
    return [build, *(folder(name) for name in NEEDS_CONTROL_PLANE)]


def others() -> list[Part]:
    """What may run in any order: the checks, then every other folder with tests."""
    folders = sorted(p.name for p in (ROOT / "tests").iterdir() if any(p.rglob("test_*.py")))
    return [*checks(), *(folder(name) for name in folders if name not in NEEDS_CONTROL_PLANE + NOT_RUN_HERE)]


def read_report(path: Path, result: Result) -> None:
    """Adds the counts of a JUnit report to `result`."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            result.counts["failed"] += 1
        elif (skipped := case.find("skipped")) is not None:
            result.counts["skipped"] += 1
            result.skip_reasons.add(skipped.get("message", "no reason given"))
        else:
            result.counts["passed"] += 1


def run(part: Part, environment: dict[str, str], screen: threading.Lock) -> Result:
    """Runs one part to its end and shows its output."""
    result = Result(part)
    started = time.monotonic()
    output: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        for command in part.commands:
            if part.counts_tests:
                command = (*command, f"--junitxml={report}")
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            output.append(done.stdout)
            result.failed |= done.returncode != 0
        if report.exists():
            read_report(report, result)
    result.seconds = time.monotonic() - started
    with screen:
        mark = "FAILED" if result.failed else "ok"
        print(f"\n=== {part.name}: {mark}, {result.seconds:.0f} s\n{''.join(output).rstrip()}", flush=True)
    return result


def run_lanes(environment: dict[str, str]) -> list[Result]:
    """Runs every part in two lanes; the results in the order in which the parts ended."""
    screen = threading.Lock()
    results: list[Result] = []
    waiting = deque(others())

    def work(first: Sequence[Part]) -> None:
        for part in first:
            results.append(run(part, environment, screen))
        while True:
            try:
                part = waiting.popleft()
            except IndexError:
                return
            results.append(run(part, environment, screen))

    lanes = [threading.Thread(target=work, args=(first,)) for first in (control_plane(), ())]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    return results


def show(results: Sequence[Result], seconds: float) -> None:
    """The closing table, the skips, and one line with the counts."""
    print(f"\n{'part':<16}{'result':<9}{'seconds':>8}{'passed':>8}{'failed':>8}{'skipped':>9}")
    for r in results:
        tests = "".join(f"{r.counts[k]:>{w}}" for k, w in (("passed", 8), ("failed", 8), ("skipped", 9)))
        print(
            f"{r.part.name:<16}{'FAILED' if r.failed else 'ok':<9}{r.seconds:>8.1f}"
            f"{tests if r.part.counts_tests else ''}"
        )
    print(f"{'all':<16}{'':<9}{seconds:>8.1f}")
    reasons = sorted({reason for r in results for reason in r.skip_reasons})
    for reason in reasons:
        print(f"!!! SKIPPED: {reason}")
    total = {k: sum(r.counts[k] for r in results) for k in ("passed", "failed", "skipped")}
    print(f"tests: {total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs everything; 0 when all parts held."""
    parser = argparse.ArgumentParser(prog="python -m dev.run_tests", description=__doc__.splitlines()[0])
    parser.add_argument("--no-skips", action="store_true", help="a skipped test is a failure")
    options = parser.parse_args(arguments)
    environment = dict(os.environ, PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    if options.no_skips:
        environment["DEMARKUS_NO_SKIPS"] = "1"
    started = time.monotonic()
    results = run_lanes(environment)
    show(results, time.monotonic() - started)
    skipped = any(r.counts["skipped"] for r in results)
    if options.no_skips and skipped:
        print("make test-all: tests were skipped", file=sys.stderr)
    return int(any(r.failed for r in results) or (options.no_skips and skipped))


if __name__ == "__main__":
    sys.exit(main())
