"""Entries, the facts of the log: who changed what, when, and which bytes say so.

No title, tag, text or e-mail stands here: what must be erasable is in the blobs.

    publish append      version; stored, size = SHA-256 and number of the stored bytes; body = SHA-256 of the body; blob
                        imported: modified (ms); predecessor = hash of the version before, if the first here is not v1
    archive unarchive   version, the newest, which stays as it is
    prune               first..version are no longer retained; stored = hash of the last of them; erase
    seed propose        as publish: by the world itself; a write that waits for somebody's decision
    decide              version, the newest of the proposal, which is archived with it; verdict
    sweep               below `path` so many blobs were there that nothing before this entry refers to; they may be
                        deleted from `due` (ms) on, and nothing after it may refer to a blob staged before it
    restore     the first of an incarnation that was restored, alone in its slot: the log of `parent` went as far as
                `size`, with that `root`; `lost` more entries are known to have been; the newest witnessed note, if one
                was at hand; ancestors = incarnations before `parent` of which no restore entry tells any more
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any


class Op(StrEnum):
    """What an entry records."""

    PUBLISH = "publish"
    APPEND = "append"
    ARCHIVE = "archive"
    UNARCHIVE = "unarchive"
    PRUNE = "prune"
    SWEEP = "sweep"
    SEED = "seed"
    PROPOSE = "propose"
    DECIDE = "decide"
    RESTORE = "restore"


CONTENT = frozenset({Op.PUBLISH, Op.APPEND, Op.SEED, Op.PROPOSE})

_COMMON = frozenset({"seq", "time", "op", "path", "operation"})
_WHO = frozenset({"by", "credential"})
_OF_OP = {
    **dict.fromkeys(CONTENT, frozenset({"version", "stored", "body", "size", "blob"})),
    Op.ARCHIVE: frozenset({"version"}),
    Op.UNARCHIVE: frozenset({"version"}),
    Op.PRUNE: frozenset({"version", "first", "stored", "erase"}),
    Op.SWEEP: frozenset({"blobs", "due"}),
    Op.DECIDE: frozenset({"version", "verdict"}),
    Op.RESTORE: frozenset({"parent", "size", "root", "lost"}),
}
_MAY = {Op.PUBLISH: frozenset({"modified", "predecessor"}), Op.RESTORE: frozenset({"note", "ancestors"})}
_HASH = re.compile("[0-9a-f]{64}")
_ID = re.compile("[0-9a-f]{32}")
_CREDENTIALS = frozenset({"token", "grant", "local"})
_VERDICTS = frozenset({"accept", "reject", "expire"})


class EntryFault(ValueError):
    """An object that is no entry; names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One fact. `time` is in ms; fields an op does not have are None and absent from its canonical form."""

    seq: int
    time: int
    op: Op
    path: str
    operation: str
    version: int = 0
    by: str | None = None
    credential: str | None = None
    stored: str | None = None
    body: str | None = None
    size: int | None = None
    blob: str | None = None
    modified: int | None = None
    predecessor: str | None = None
    first: int | None = None
    erase: bool | None = None
    blobs: int | None = None
    due: int | None = None
    verdict: str | None = None
    parent: str | None = None
    root: str | None = None
    lost: int | None = None
    note: str | None = None
    ancestors: tuple[str, ...] | None = None


def to_json(entry: Entry) -> dict[str, Any]:
    """The entry as a JSON object."""
    values = ((name, getattr(entry, name)) for name in _FIELDS)
    foreign = {"version"} - _OF_OP[entry.op]
    return {name: value for name, value in values if value is not None and name not in foreign}


def from_json(value: Mapping[str, Any]) -> Entry:
    """The entry behind a JSON object. Raises EntryFault for a field that is missing, foreign or malformed."""
    try:
        op = Op(value["op"])
    except (KeyError, ValueError):
        raise EntryFault(f"op is {value.get('op')!r}, which this version does not know") from None
    wanted = _COMMON | _OF_OP[op]
    allowed = wanted | _WHO | _MAY.get(op, frozenset())
    if not wanted <= value.keys() <= allowed:
        odd = sorted(wanted - value.keys() | value.keys() - allowed)
        raise EntryFault(f"{', '.join(odd)} missing or not expected in {op}")
    for name, given in value.items():
        if not _CHECKS[name](given):
            raise EntryFault(f"{name} is {given!r}")
    read = {**value, "op": op}
    if "ancestors" in read:
        read["ancestors"] = tuple(read["ancestors"])
    return Entry(**read)


def _is_number(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_id, value))


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_path(value: Any) -> bool:
    return _is_text(value) and value.startswith("/")


_FIELDS = tuple(field.name for field in fields(Entry))
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "seq": _is_number,
    "time": _is_number,
    "op": _is_text,
    "path": _is_path,
    "version": _is_number,
    "operation": _is_id,
    "by": _is_text,
    "credential": lambda value: value in _CREDENTIALS,
    "stored": _is_hash,
    "body": _is_hash,
    "size": _is_number,
    "blob": _is_text,
    "modified": _is_number,
    "predecessor": _is_hash,
    "first": _is_number,
    "blobs": _is_number,
    "due": _is_number,
    "verdict": lambda value: value in _VERDICTS,
    "erase": lambda value: type(value) is bool,
    "parent": _is_id,
    "root": _is_hash,
    "lost": _is_number,
    "note": _is_text,
    "ancestors": _are_ids,
}
