"""The bare engine: a listener whose handler answers every request with the same bytes.

`python -m tests.benchmarks.world_echo --certificate FILE --key FILE` prints its UDP port and serves until its standard
input ends. A request that begins with `ECHO ` and a number sets how many bytes an answer has.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import uvloop

from mark_protocol.transport import listen
from mark_protocol.transport.certificates import load
from mark_protocol.transport.port import Address, FailureReason, Limits, Listener

COMMAND = b"ECHO "


class Echo:
    """See `Handler`."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self._answer = b""

    def opened(self, conn: int, peer: Address, server_name: str | None) -> None: ...

    def request(self, conn: int, stream: int, data: bytes) -> None:
        if data.startswith(COMMAND):
            self._answer = b"." * int(data.removeprefix(COMMAND))
        assert self.listener is not None
        self.listener.send(conn, stream, self._answer)

    def failed(self, conn: int, stream: int, reason: FailureReason) -> None: ...

    def stopped(self, conn: int, stream: int) -> None: ...

    def writable(self, conn: int, stream: int) -> None: ...

    def closed(self, conn: int, code: int, reason: str) -> None: ...


async def serve(certificate: Path, key: Path, streams: int) -> None:
    """Serve until the standard input ends."""
    echo = Echo()
    echo.listener = await listen(
        "127.0.0.1", 0, certificates=[load(certificate, key)], limits=Limits(max_streams=streams), handler=echo
    )
    print(echo.listener.address.port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await echo.listener.close(grace=0.0)


def main() -> None:
    """Read the arguments, serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.world_echo")
    parser.add_argument("--certificate", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--streams", type=int, required=True)
    options = parser.parse_args()
    uvloop.run(serve(options.certificate, options.key, options.streams))


if __name__ == "__main__":
    main()
