"""`python -m tests.benchmarks.world` (`make bench-world`): what a request costs a world, beside the bare engine.

The world and the engine's echo (same transport, a handler that answers as many fixed bytes) are processes of their own,
asked in turn by this one. CPU is that of the server process alone: on a machine with other work it is the figure to
trust, while rates and times also depend on the client, which is as slow as the engine. Nothing is asserted. Prints a
table while it goes, and all figures as one JSON line at the end. `--seconds 0.5 --documents 2000` tries it out.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from mark_protocol.request import Verb
from tests.benchmarks.bulk import IDENTITY, Size, fill
from tests.benchmarks.world_echo import COMMAND
from tests.benchmarks.world_requests import Measured, Scenario, asked, exchange, measure
from tests.benchmarks.world_servers import Server, a_world, the_bare_engine, until_idle

ROUNDS = 2
SIZES = {"2 KB": 2048, "64 KB": 65_536, "1 MB": 1_048_576}
HISTORY, DIRECTORY = "/history.md", "/thousand"
MANY = 1000


def text(size: int, number: int = 0) -> bytes:
    """A document of so many bytes."""
    head = f"# Document {number}\n\n".encode()
    return head + (b"Water for tea comes first, and then the leaves.\n" * (size // 48 + 1))[: size - len(head)]


def path_of(size: int) -> str:
    """Where the document of that size is."""
    return f"/sizes/{size}.md"


def fetched(size: int) -> Any:
    """Requests for the document of that size."""
    data = asked(Verb.FETCH, path_of(size))
    return lambda number: data


def always(data: bytes) -> Any:
    """The same request each time."""
    return lambda number: data


READS_AND_WRITES = (
    *(Scenario(name=f"FETCH 2 KB ({n})", request=fetched(2048), in_flight=n) for n in (1, 16, 128)),
    Scenario(name="FETCH 64 KB (16)", request=fetched(65_536), in_flight=16),
    Scenario(name="FETCH 1 MB (4)", request=fetched(1_048_576), in_flight=4),
    Scenario(
        name="PUBLISH 2 KB, distinct (16)",
        request=lambda n: asked(Verb.PUBLISH, f"/new/{n % 100}/{n}.md", text(2048, n), expected_version="0"),
        in_flight=16,
    ),
    Scenario(
        name="PUBLISH 2 KB, one path (16)",
        request=lambda n: asked(Verb.PUBLISH, "/same.md", text(2048, n)),
        in_flight=16,
    ),
    Scenario(name="LIST 1,000 (4)", request=always(asked(Verb.LIST, DIRECTORY)), in_flight=4),
    Scenario(name="VERSIONS 1,000 (4)", request=always(asked(Verb.VERSIONS, HISTORY)), in_flight=4),
    Scenario(name="handshake + FETCH 2 KB (4)", request=fetched(2048), in_flight=4, dial=True),
)


def lookups(documents: int) -> tuple[Scenario, ...]:
    """LOOKUP over that many: titles are `Document <number>`, and each has two of twelve tags."""
    rare = str(documents * 7 // 9)
    return tuple(
        Scenario(name=f"LOOKUP {what} (4)", request=always(asked(Verb.LOOKUP, "/", query=query)), in_flight=4)
        for what, query in (
            ("rare term", rare),
            ("common term", "kettle"),
            ("two letters", "77"),
            ("*", "*"),
            ("three terms", f"kettle steam {rare}"),
        )
    )


async def prepare(world: Server) -> None:
    """Write what the reads are about."""
    await exchange(world, *(asked(Verb.PUBLISH, path_of(size), text(size)) for size in SIZES.values()))
    await exchange(world, *(asked(Verb.PUBLISH, f"{DIRECTORY}/{n:04}.md", text(200, n)) for n in range(MANY)))
    await exchange(world, *(asked(Verb.PUBLISH, HISTORY, text(200, n)) for n in range(MANY)))


async def row(world: Server, echo: Server, scenario: Scenario, *, seconds: float) -> dict[str, Any]:
    """A scenario at both servers, in turn."""
    numbers = itertools.count()
    (answer,) = await exchange(world, scenario.request(next(numbers)))
    await exchange(echo, COMMAND + str(len(answer)).encode())
    rounds = [
        [await measure(server, scenario, numbers, seconds=seconds / ROUNDS) for server in (world, echo)]
        for _ in range(ROUNDS)
    ]
    ours, bare = ([pair[at] for pair in rounds] for at in (0, 1))
    cost, floor = cpu_us(ours), cpu_us(bare)
    return {
        "scenario": scenario.name,
        "cpu_us": round(cost),
        "echo_us": round(floor),
        "over_echo_us": round(cost - floor),
        "per_second": round(median(m.operations / m.seconds for m in ours), 1),
        "echo_per_second": round(median(m.operations / m.seconds for m in bare), 1),
        "p50_ms": round(median(m.p50 for m in ours) * 1000, 2),
        "p99_ms": round(max(m.p99 for m in ours) * 1000, 2),
        "busy": round(median(m.cpu / m.seconds for m in ours), 2),
        "rss_mb": max(m.rss_mb for m in ours),
        "echo_rss_mb": max(m.rss_mb for m in bare),
        "answer_bytes": len(answer),
        "operations": sum(m.operations for m in ours),
        "failures": sum(m.failures for m in ours),
    }


def cpu_us(measured: Sequence[Measured]) -> float:
    """Microseconds of the server's CPU for one operation."""
    return sum(m.cpu for m in measured) / sum(m.operations for m in measured) * 1e6


COLUMNS = {
    "cpu_us": "CPU us", "echo_us": "echo us", "over_echo_us": "over echo", "per_second": "req/s",
    "echo_per_second": "echo req/s", "p50_ms": "p50 ms", "p99_ms": "p99 ms", "busy": "busy", "rss_mb": "RSS MB",
    "failures": "failed",
}  # fmt: skip


def tell(figures: dict[str, Any] | None) -> None:
    """One row of the table, or its head."""
    cells = COLUMNS if figures is None else figures
    print(
        f"{'' if figures is None else cells['scenario']:<30}" + "".join(f"{cells[k]:>12}" for k in COLUMNS), flush=True
    )


def run(folder: Path, *, documents: int, seconds: float, only: str) -> list[dict[str, Any]]:
    """All rows."""
    rows: list[dict[str, Any]] = []

    def measured(world: Server, echo: Server, scenarios: Sequence[Scenario]) -> None:
        for scenario in scenarios:
            if only in scenario.name:
                rows.append(asyncio.run(row(world, echo, scenario, seconds=seconds)))
                tell(rows[-1])

    with the_bare_engine(folder / "echo") as echo:
        tell(None)
        if any(only in scenario.name for scenario in READS_AND_WRITES):
            with a_world(folder / "small", IDENTITY) as world:
                asyncio.run(prepare(world))
                until_idle(world)
                measured(world, echo, READS_AND_WRITES)
        if any(only in scenario.name for scenario in lookups(documents)):
            fill(folder / "large" / "data" / "world", Size(documents, documents))
            with a_world(folder / "large", IDENTITY) as world:
                until_idle(world)
                measured(world, echo, lookups(documents))
    return rows


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.world", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each row is measured, at each server")
    parser.add_argument("--documents", type=int, default=100_000, help="among which LOOKUP searches")
    parser.add_argument("--directory", type=Path, help="a folder on the disk to measure (default: the temporary one)")
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.directory) as folder:
        rows = run(Path(folder), documents=options.documents, seconds=options.seconds, only=options.only)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
