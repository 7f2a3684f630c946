"""Loopback ports: chosen once, kept in the state folder, used again at the next start if nobody took them.

The operating system picks a free port; only whether a kept one is still free is asked by binding it. A port may
be taken between that question and the bind of the process it is for: the process then fails, is started anew,
and asks here again.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Literal

from demarkus_operator.local.state import write_durably

LOOPBACK = "127.0.0.1"

Protocol = Literal["tcp", "udp"]


class Ports:
    """The ports of one state folder by name. Not for use from two threads at once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._chosen: dict[str, int] = _load(file)

    def choose(self, name: str, protocol: Protocol) -> int:
        """A port that is free now: the one this name had before, if it is, else a new one that is then kept."""
        kept = self._chosen.get(name)
        if kept is not None and _free(kept, protocol):
            return kept
        taken = set(self._chosen.values())
        port = next(port for port in iter(lambda: _any(protocol), None) if port not in taken)
        self._chosen[name] = port
        write_durably(self._file, json.dumps(self._chosen, indent=2, sort_keys=True).encode())
        return port

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


def _bound(port: int, protocol: Protocol) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM)
    try:
        if protocol == "tcp":
            # As servers do it: connections that linger from the last run don't count as a taken port.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((LOOPBACK, port))
        if protocol == "tcp":
            opened.listen(1)
    except OSError:
        opened.close()
        raise
    return opened


def _free(port: int, protocol: Protocol) -> bool:
    try:
        _bound(port, protocol).close()
    except OSError:
        return False
    return True


def _any(protocol: Protocol) -> int:
    with _bound(0, protocol) as opened:
        return int(opened.getsockname()[1])
