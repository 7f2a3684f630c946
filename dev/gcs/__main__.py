"""`python -m dev.gcs --port 0 --bucket NAME`: serve until standard input ends; prints the address on the first line."""

from __future__ import annotations

import argparse
import asyncio
import sys

from dev.gcs.faults import Faults
from dev.gcs.server import Service, serving


async def _serve(port: int, buckets: list[str], seed: int) -> None:
    service = Service(faults=Faults(seed=seed))
    for name in buckets:
        service.state.create_bucket({"name": name, "location": "EU"})
    async with serving(service, port=port) as address:
        print(address, flush=True)
        await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(prog="python -m dev.gcs", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--bucket", action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    asyncio.run(_serve(options.port, options.bucket, options.seed))


if __name__ == "__main__":
    main()
