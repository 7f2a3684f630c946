"""`python -m tests.fuzz.campaign`: every target for its share of the time, and a live world under a rain of datagrams.

Coverage guides the targets: atheris (libFuzzer) mutates what reached something new, beginning with the corpus. A target
fails when it raises, hangs, or its memory grows; the input is left in the folder that is named then. A failure that was
understood becomes a test of the room it is in; `python -m tests.fuzz.corpus FOLDER` keeps the best of the rest.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import corpus, live
from tests.fuzz.targets import TARGETS
from tests.load.memory import MIB, Samples

HANGING = 20
"""Seconds that one input may take."""
GROWTH, LEAST = 0.10, 24 * MIB
"""Share and bytes of growth that count: libFuzzer keeps what it found in memory, and that is a few MiB."""
_RUNS = re.compile(r"Done (\d+) runs")
_REACHED = re.compile(r" cov: (\d+) ")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a target: inputs tried, places of our code reached. `problem` is "" if nothing went wrong."""

    name: str
    tried: int
    reached: int
    memory: Samples
    problem: str

    def __str__(self) -> str:
        return (
            f"{self.name:<20} {self.tried:>10,} inputs  {self.reached:>5} places  {self.memory}  {self.problem or 'ok'}"
        )


def fuzz(name: str, folder: Path, *options: str) -> Result:
    """One target in a process of its own; what it finds is kept in `folder`."""
    found = folder / name
    corpus.unpack(name, found)
    command = [sys.executable, "-m", "tests.fuzz.one", name, str(found)]
    limits = [f"-timeout={HANGING}", "-max_len=4096", f"-artifact_prefix={folder / name}-"]
    memory = Samples()
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen([*command, *limits, *options], stdout=log, stderr=subprocess.STDOUT)
        begun = False
        while process.poll() is None:
            begun = begun or "INITED" in Path(log.name).read_text()
            if begun:
                memory.take(process.pid)
            time.sleep(0.1)
        said = Path(log.name).read_text()
    tried, reached = _RUNS.search(said), _REACHED.findall(said)
    problem = ""
    if process.returncode or tried is None:
        problem = f"FAILED, see {log.name}:\n{_first_words(said)}"
    elif memory.grew(share=GROWTH, least=LEAST):
        problem = "FAILED: its memory grows"
    return Result(name, int(tried[1]) if tried else 0, int(reached[-1]) if reached else 0, memory, problem)


def _first_words(said: str) -> str:
    """What was raised, without the fuzzer's own words."""
    raised = said.partition("=== Uncaught Python exception: ===")[2] or said
    return "\n".join(raised.strip().splitlines()[-25:] if raised is said else raised.strip().splitlines()[:25])


def main() -> int:
    """0 if nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="for the whole")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all that is random")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    share = max(1, int(options.seconds / len(TARGETS)))
    print(f"{len(TARGETS)} targets, {share} s each, seed {options.seed}; what is found goes to {folder}", flush=True)
    rain: list[live.Report] = []

    end = time.monotonic() + options.seconds

    def under_rain() -> None:
        rain.append(live.run(folder / "world", go_on=lambda _: time.monotonic() < end, seed=options.seed))

    raining = threading.Thread(target=under_rain, name="rain")
    raining.start()
    failed = False
    for name in TARGETS:
        result = fuzz(name, folder, f"-max_total_time={share}", f"-seed={options.seed}")
        failed |= bool(result.problem)
        print(result, flush=True)
    raining.join()
    print(*(rain or ["the live world: FAILED"]), flush=True)
    return int(failed or not rain or bool(rain[0].problems))


if __name__ == "__main__":
    sys.exit(main())
