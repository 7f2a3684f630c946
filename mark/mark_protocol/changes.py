"""The blocks of a WATCH stream, to bytes and back, and the cursors in them.

A stream is a sequence of blocks without bodies: the acknowledgement, changes and heartbeats, in the end a control block
that says why nothing follows. A refusal is an ordinary response in the place of the first block.

Source: Mark protocol 10.2 (blocks), 10.3 (cursors).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from mark_protocol import frontmatter, limits
from mark_protocol.status import Status

SINCE = "since"
COALESCE = "coalesce"
HEARTBEAT = 20.0
"""Seconds without a block after which a server sends one that says nothing but where the stream is."""

_CURSOR = re.compile(r"([A-Za-z0-9._-]{1,64}):(0|[1-9][0-9]{0,19})")
_MAX_SEQUENCE = 2**64 - 1
_VERSION = re.compile(r"[1-9][0-9]{0,9}")
_FENCE_LINE = b"---"


class Kind(StrEnum):
    """What has happened to a document. A kind that is not known is left out, but its cursor counts."""

    PUBLISH = "publish"
    APPEND = "append"
    ARCHIVE = "archive"


class Cursor(NamedTuple):
    """A place in a world's sequence of changes, as its server reads it. Clients give cursors back as they came."""

    epoch: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.sequence}"


def parse_cursor(text: str) -> Cursor | None:
    """The cursor, or None where the text is none."""
    match = _CURSOR.fullmatch(text)
    if match is None or int(match[2]) > _MAX_SEQUENCE:
        return None
    return Cursor(match[1], int(match[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something happened to a document; `version` is its newest one, `hash` (`sha256-...`) that of its body.

    `agent` and `user` are what the version says of its making; `by` and `credential`, which not every server tells,
    say who was authorised to make the change.
    """

    cursor: str
    path: str
    version: int
    op: str
    hash: str | None = None
    agent: str | None = None
    user: str | None = None
    by: str | None = None
    credential: str | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """A block about the stream itself. With any status but `ok` it is the last one."""

    status: str
    cursor: str | None = None

    @property
    def terminal(self) -> bool:
        """Whether nothing follows."""
        return self.status != Status.OK


Block = Change | Control

_TEXTS = ("hash", "agent", "user", "by", "credential")


class BlockTooLong(Exception):
    """A block that no reader would take."""


class MalformedBlock(Exception):
    """Bytes that are no block, or a stream that ends inside one: to be opened again from the last cursor."""


def encode_control(control: Control) -> bytes:
    """The bytes of a control block."""
    cursor = {} if control.cursor is None else {"cursor": control.cursor}
    return _encode({"status": control.status, **cursor})


def encode_change(change: Change) -> bytes:
    """The bytes of a change. Raises BlockTooLong."""
    entries = {"cursor": change.cursor, "path": change.path, "version": str(change.version), "op": change.op}
    extras = {name: getattr(change, name) for name in _TEXTS}
    return _encode(entries | {name: text for name, text in extras.items() if text is not None})


def _encode(entries: dict[str, str]) -> bytes:
    data = frontmatter.FENCE + frontmatter.encode_block(entries) + frontmatter.FENCE
    if len(data) > limits.WATCH_BLOCK:
        raise BlockTooLong(f"a block of {len(data)} bytes; readers take {limits.WATCH_BLOCK}")
    return data


class BlockReader:
    """Takes a stream in pieces and gives its blocks."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._lines: list[bytes] = []  # of the block that is being read, and where behind them it goes on
        self._start = 0
        self._ended = False

    @property
    def rest(self) -> bytes:
        """What came behind a terminal block: the body of a refusal, as much of it as a reader takes."""
        return bytes(self._buffer) if self._ended else b""

    def feed(self, data: bytes) -> Iterator[Block]:
        """The blocks that these bytes complete. Raises MalformedBlock; the reader is of no use then."""
        self._buffer += data
        while not self._ended and (taken := self._take()) is not None:
            yield taken
        if self._ended:
            del self._buffer[limits.WATCH_BLOCK :]

    def finish(self) -> None:
        """Say that the stream has ended. Raises MalformedBlock if that is inside a block."""
        if self._buffer and not self._ended:
            raise MalformedBlock("the stream ends inside a block")

    def _take(self) -> Block | None:
        while (end := self._buffer.find(b"\n", self._start, limits.WATCH_BLOCK)) >= 0:
            line = bytes(self._buffer[self._start : end]).removesuffix(b"\r")
            self._start = end + 1
            if not self._lines and line != _FENCE_LINE:
                raise MalformedBlock("a block begins with a fence")
            if self._lines and line == _FENCE_LINE:
                block = _decode(b"\n".join(self._lines[1:]))
                del self._buffer[: self._start]
                self._lines, self._start = [], 0
                self._ended = isinstance(block, Control) and block.terminal
                return block
            self._lines.append(line)
        if len(self._buffer) >= limits.WATCH_BLOCK:
            raise MalformedBlock(f"a block is longer than {limits.WATCH_BLOCK} bytes")
        return None


def _decode(block: bytes) -> Block:
    try:
        entries = frontmatter.decode_block(block)
    except frontmatter.BlockError as error:
        raise MalformedBlock(str(error)) from None
    cursor = entries.get("cursor")
    if "status" in entries:
        return Control(entries["status"], cursor)
    path, version, op = entries.get("path", ""), entries.get("version", ""), entries.get("op", "")
    if not cursor or not path.startswith("/") or not _VERSION.fullmatch(version) or not op:
        raise MalformedBlock("a change without its cursor, path, version or op")
    texts = {name: entries.get(name) for name in _TEXTS}
    return Change(cursor=cursor, path=path, version=int(version), op=op, **texts)
