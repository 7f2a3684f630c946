"""What a load came to: every request with how it ended, every fault, every reload; what went wrong in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.load.memory import Samples


@dataclass(slots=True)
class Account:
    """The figures of a run."""

    handshakes: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    reloads: Counter[str] = field(default_factory=Counter)
    memory: Samples = field(default_factory=Samples)
    lag: tuple[float, float] = (0.0, 0.0)
    """Median and 99th percentile of the loop's lag, in seconds: upper bounds, as far as the buckets tell."""
    problems: list[str] = field(default_factory=list)

    def wrong(self, what: str) -> None:
        """Note what should not be; of many the first are kept."""
        if len(self.problems) < 50:
            self.problems.append(what)

    def __str__(self) -> str:
        rows = [
            f"handshakes        {self.handshakes:,}",
            f"requests          {self.operations.total():,}: {_told(self.operations)}",
            f"ended             {_told(self.ends)}",
            f"statuses          {_told(self.statuses)}",
            f"faults            {_told(self.faults)}",
            f"reloads           {_told(self.reloads)}",
            f"memory (RSS)      {self.memory}; in tenths of the time {self.memory.course()}",
            f"loop lag          p50 {self.lag[0] * 1000:.2f} ms, p99 {self.lag[1] * 1000:.2f} ms",
            f"problems          {len(self.problems)}",
        ]
        return "\n".join([*rows, *(f"    {problem}" for problem in self.problems)])


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {number:,}" for what, number in counts.most_common())
