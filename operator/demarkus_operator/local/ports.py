"""Loopback ports: chosen once, kept in the state folder, used again at the next start if nobody took them.

They come from below the ranges that systems give to outgoing connections, which would take a port away for a moment.
Whether one is free is asked by binding it. It may be taken between that question and the bind of the process it is for:
the process then fails, is started anew, and asks here again.
"""

from __future__ import annotations

import itertools
import json
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from demarkus_operator.local.state import write_durably

LOOPBACK = "127.0.0.1"
RANGE = range(20000, 30000)

Protocol = Literal["tcp", "udp"]


class Ports:
    """The ports of one state folder by name. Not for use from two threads at once."""

    def __init__(self, file: Path, *, below: Callable[[int], int] = secrets.randbelow) -> None:
        """`below` draws a number from 0 to less than its argument: where the search begins."""
        self._file = file
        self._draw = below
        self._chosen = _load(file)

    def choose(self, name: str, protocol: Protocol) -> int:
        """A port that is free now: the one this name had before, if it is, else a new one that is then kept.

        Raises OSError when there is none.
        """
        kept = self._chosen.get(name)
        if kept is not None and _free(kept, protocol):
            return kept
        taken = set(self._chosen.values())
        begin = self._draw(len(RANGE))
        for port in itertools.chain(RANGE[begin:], RANGE[:begin]):
            if port not in taken and _free(port, protocol):
                self._chosen[name] = port
                write_durably(self._file, json.dumps(self._chosen, indent=2, sort_keys=True).encode())
                return port
        raise OSError(f"no free {protocol} port from {RANGE.start} to {RANGE.stop - 1}")

    def known(self, name: str) -> int | None:
        """The port this name has, free or not."""
        return self._chosen.get(name)

    def below(self, prefix: str) -> list[tuple[str, int]]:
        """The names that begin so, and their ports."""
        return sorted((name, port) for name, port in self._chosen.items() if name.startswith(prefix))


def _load(file: Path) -> dict[str, int]:
    try:
        content = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}  # ports carry no identity: choosing anew is always right
    if not isinstance(content, dict):
        return {}
    return {name: port for name, port in content.items() if isinstance(port, int) and 0 < port < 65536}


def _free(port: int, protocol: Protocol) -> bool:
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, kind) as asked:
        if protocol == "tcp":
            # As servers do it: connections that linger from the last run don't count as a taken port.
            asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            asked.bind((LOOPBACK, port))
            if protocol == "tcp":
                asked.listen(1)
        except OSError:
            return False
    return True
