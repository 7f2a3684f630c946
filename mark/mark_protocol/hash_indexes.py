"""Hash indexes: which servers have the document with a content hash. An index is one document, or a manifest of shards.

Read strictly: an index is made by a program and says what it holds, so what does not add up is refused as a whole.

Source: Mark protocol 11.1.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mark_protocol.versions import content_hash

_HASH = re.compile(r"sha256-[0-9a-f]{64}")
_PREFIX = re.compile(r"[0-9a-f]{2}")
_FACT = re.compile(r"> ([A-Za-z-]+): (.*)")
_MANIFEST, _MANIFEST_FORMAT = "# Content Index Manifest", "demarkus-hash-index/v2"
_SHARD, _SHARD_FORMAT = "# Content Index Shard", "demarkus-hash-index-shard/v1"
_LEGACY = "# Content Index"
_ROW_COLUMNS = ["Hash", "Server", "Path"]
_SHARD_COLUMNS = ["Prefix", "Path", "Version", "Content Hash", "Rows", "Bytes"]
_MOST_SHARDS = 4096
_MOST_ROWS = 1_000_000


class HashIndexError(Exception):
    """A document that is no index, or not a whole one."""


@dataclass(frozen=True, slots=True)
class IndexRow:
    """Content (`sha256-...`) is at this path of this server (`mark://host`)."""

    content: str
    server: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A part of an index: the document with the rows whose hashes begin with `prefix`, pinned to a version."""

    prefix: str
    part: int
    path: str
    version: int
    content: str
    rows: int
    size: int


def parse_index(body: bytes, *, path: str) -> list[IndexRow] | list[Shard]:
    """The rows of an index in one document, or the shards of one in parts; `path` is where it was read.

    Raises HashIndexError.
    """
    lines = _lines(body)
    if lines[0] == _MANIFEST:
        return _shards(lines, path)
    if lines[0] == _LEGACY:
        rows = list(_rows(lines))
        _require(_number(_facts(lines), "Documents") == len(rows), "has not as many rows as it says")
        return rows
    raise HashIndexError("the document is no hash index")


def parse_shard(body: bytes, shard: Shard) -> list[IndexRow]:
    """The rows of a shard. Raises HashIndexError for one that is not what its manifest says."""
    _require(len(body) == shard.size and content_hash(body) == shard.content, "is not the shard of its manifest")
    lines = _lines(body)
    facts = _facts(lines)
    rows = list(_rows(lines))
    _require(lines[0] == _SHARD and facts.get("Format") == _SHARD_FORMAT, "is no shard")
    named = facts.get("Prefix"), _number(facts, "Part"), _number(facts, "Rows"), len(rows)
    _require(named == (shard.prefix, shard.part, shard.rows, shard.rows), "does not fit its manifest")
    begins = f"sha256-{shard.prefix}"
    _require(all(row.content.startswith(begins) for row in rows), "has a row of another shard")
    return rows


def _shards(lines: Sequence[str], path: str) -> list[Shard]:
    facts = _facts(lines)
    slot = facts.get("Active-Slot", "")
    _require(facts.get("Format") == _MANIFEST_FORMAT, "has an unknown format")
    _require(facts.get("Complete") == "true" and slot in ("a", "b"), "is not complete")
    cells = list(_cells(lines, _SHARD_COLUMNS))
    _require(len(cells) <= _MOST_SHARDS, "has too many shards")
    shards: list[Shard] = []
    for prefix, where, version, content, rows, size in cells:
        part = shards[-1].part + 1 if shards and shards[-1].prefix == prefix else 0
        _require(bool(_PREFIX.fullmatch(prefix) and _HASH.fullmatch(content)), "has a shard without prefix or hash")
        _require(where == f"{path.removesuffix('.md')}.shards/{slot}/{prefix}-{part:03}.md", "has a shard elsewhere")
        numbers = [_digits(text) for text in (version, rows, size)]
        shards.append(
            Shard(
                prefix=prefix,
                part=part,
                path=where,
                version=numbers[0],
                content=content,
                rows=numbers[1],
                size=numbers[2],
            )
        )
    total = sum(shard.rows for shard in shards)
    _require(total == _number(facts, "Documents") and total <= _MOST_ROWS, "has not as many rows as it says")
    return shards


def _rows(lines: Sequence[str]) -> Iterator[IndexRow]:
    for content, server, path in _cells(lines, _ROW_COLUMNS):
        _require(bool(_HASH.fullmatch(content)) and path.startswith("/"), "has a row without hash or path")
        yield IndexRow(content, server, path)


def _cells(lines: Sequence[str], columns: Sequence[str]) -> Iterator[list[str]]:
    table = [line for line in lines if line.startswith("|")]
    _require(len(table) >= 2 and _split(table[0]) == columns, f"has no table {' | '.join(columns)}")
    for line in table[2:]:
        cells = _split(line)
        _require(len(cells) == len(columns), "has a row with another number of cells")
        yield cells


def _split(line: str) -> list[str]:
    cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
    return [cell.replace("%7C", "|").replace("%20", " ").replace("%25", "%") for cell in cells]


def _facts(lines: Sequence[str]) -> dict[str, str]:
    facts: dict[str, str] = {}
    for found in filter(None, map(_FACT.fullmatch, lines)):
        _require(found[1] not in facts, f"says {found[1]} twice")
        facts[found[1]] = found[2]
    return facts


def _number(facts: dict[str, str], name: str) -> int:
    return _digits(facts.get(name, ""))


def _digits(text: str) -> int:
    _require(text.isascii() and text.isdigit() and len(text) < 11, "lacks a number")
    return int(text)


def _lines(body: bytes) -> list[str]:
    try:
        return body.decode().removeprefix("\n").split("\n")
    except UnicodeDecodeError:
        raise HashIndexError("the index is not valid UTF-8") from None


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise HashIndexError(f"the index {fault}")
