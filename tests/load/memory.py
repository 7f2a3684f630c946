"""How much memory a process holds while something is done to it, and whether that grows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

MIB = 1 << 20
_PAGE = 4096


def resident(pid: int) -> int:
    """Bytes that a process holds in memory; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


@dataclass(slots=True)
class Samples:
    """Memory over time; the first quarter is for filling caches."""

    taken: list[int] = field(default_factory=list)

    def take(self, pid: int) -> None:
        """One more sample."""
        if (size := resident(pid)) > 0:
            self.taken.append(size)

    @property
    def early(self) -> float:
        """Bytes in the second quarter of the time, on average."""
        return self._between(1, 2)

    @property
    def late(self) -> float:
        """Bytes in the last quarter."""
        return self._between(3, 4)

    def grew(self, *, share: float, least: int) -> bool:
        """Whether it grew by more than `share` of the early size, and by more than `least` bytes."""
        return self.late - self.early > max(share * self.early, least)

    def __str__(self) -> str:
        return f"{self.early / MIB:.1f} -> {self.late / MIB:.1f} MiB"

    def course(self) -> str:
        """The whole of it, in MiB, on average over each tenth of the time."""
        return " ".join(f"{self._between(part, part + 1, 10) / MIB:.0f}" for part in range(10))

    def _between(self, first: int, end: int, parts: int = 4) -> float:
        size = len(self.taken)
        begin = size * first // parts
        return fmean(self.taken[begin : max(size * end // parts, begin + 1)] or [0])
