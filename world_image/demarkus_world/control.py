"""The control socket of a world on a volume: how commands on the same machine reach the process that has the store.

`<mount>/control.sock` is there while a world serves, readable and writable by its user alone (0600). A caller sends one
line, a JSON object with `command`, and gets one line back: `{"done": ...}`, or `{"refused": "why"}` for what somebody
has to change and `{"failed": "why"}` for what may work later. Who calls is what the kernel says, never what is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import pwd
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from demarkus_world.engine.engine import EngineError, WriteRefused

SOCKET = "control.sock"
LINE_LIMIT = 64 * 1024
CALLERS = 8
ARRIVAL = 10.0
"""Seconds that a caller may take to send its line."""

_CREDENTIALS = struct.Struct("3i")

Handler = Callable[[Mapping[str, Any], str], Awaitable[Mapping[str, Any]]]

logger = logging.getLogger(__name__)


class NotServed(Exception):
    """Nobody listens at the socket."""


class Refused(Exception):
    """What was asked for can't be had until somebody changes something."""


class Failed(Exception):
    """It did not work; it may later."""


class BadCommand(Exception):
    """A line that is no command this world knows."""


@contextlib.asynccontextmanager
async def listening(mount: Path, handle: Handler) -> AsyncIterator[None]:
    """Serve the socket of the mount; `handle` gets the command and who asks, as `local:<user name>`.

    Only who holds the store's lock may call this: a socket that is there is a dead process's. Raises OSError.
    """
    running: set[asyncio.Task[None]] = set()

    async def called(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "the server makes a task for each caller"
        running.add(task)
        task.add_done_callback(running.discard)
        with contextlib.closing(writer):
            if len(running) <= CALLERS:
                writer.write(_line(await _answer(reader, writer, handle)))
                with contextlib.suppress(ConnectionError):
                    await writer.drain()

    server = await asyncio.start_unix_server(called, sock=await asyncio.to_thread(_bound, mount), limit=LINE_LIMIT)
    try:
        yield
    finally:
        server.close()
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        await asyncio.to_thread(_remove, mount)


async def ask(mount: Path, command: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the world that serves the mount did. Raises NotServed, Refused, Failed."""
    try:
        with _reachable(mount) as where:
            reader, writer = await asyncio.open_unix_connection(where, limit=LINE_LIMIT)
    except (FileNotFoundError, ConnectionRefusedError):
        raise NotServed(f"{mount / SOCKET}: nobody listens") from None
    except OSError as error:
        raise Refused(f"{mount / SOCKET}: {error.strerror or error}") from None
    with contextlib.closing(writer):
        try:
            writer.write(_line(command))
            answer = json.loads(await reader.readline())
        except (OSError, ValueError) as error:
            raise Failed(f"the world ended before it answered: {error}") from None
    match answer:
        case {"done": dict() as done}:
            return done
        case {"refused": str() as why}:
            raise Refused(why)
        case _:
            raise Failed(str(answer.get("failed", "the world's answer can't be understood")))


def user_name(number: int) -> str:
    """A user of this machine by name; by number where it has none, as in many containers."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handle: Handler) -> Mapping[str, Any]:
    by = f"local:{_caller(writer)}"
    try:
        async with asyncio.timeout(ARRIVAL):
            command = json.loads(await reader.readline())
        if not isinstance(command, dict):
            raise BadCommand("a command is a JSON object")
        logger.info("command", extra={"fields": {"command": command.get("command"), "by": by}})
        return {"done": await handle(command, by)}
    except (BadCommand, WriteRefused) as error:
        return {"refused": str(error)}
    except EngineError as error:
        return {"failed": str(error)}
    except (ValueError, TimeoutError, ConnectionError):
        return {"refused": "expected one line with a JSON object"}
    except Exception:
        logger.exception("bug in a command")
        return {"failed": "a bug; see the world's log"}


def _bound(mount: Path) -> socket.socket:
    _remove(mount)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Before the name is there, so that there is no moment in which others may connect.
        os.fchmod(bound.fileno(), 0o600)
        with _reachable(mount) as where:
            bound.bind(where)
    except OSError:
        bound.close()
        raise
    return bound


def _remove(mount: Path) -> None:
    with contextlib.suppress(OSError):
        (mount / SOCKET).unlink()


def _caller(writer: asyncio.StreamWriter) -> str:
    connection = writer.get_extra_info("socket")
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(raw)
    return user_name(user)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


@contextlib.contextmanager
def _reachable(mount: Path) -> Iterator[str]:
    """A name of the socket that is short enough for an address (107 bytes), however long the mount's is."""
    directory = os.open(mount, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{SOCKET}"
    finally:
        os.close(directory)
