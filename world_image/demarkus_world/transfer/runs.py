"""Which versions of a document come over: pure decisions.

A document comes over with its newest unbroken run of versions, byte for byte, so that etags and links stay. A version
that is damaged, missing or not linked ends the run; what is older is listed and stays behind. If the newest version
itself can't come over nothing does: an older one must not pass for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from demarkus_world.transfer.model import Here, History, Refused, Version
from mark_protocol import limits
from mark_protocol.versions import VersionError, check_header, etag, parse_version


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """Versions `first` to `last` that do not come over, and why."""

    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What there is to do for a document: versions to adopt in this order, and whether it is archived in the end.

    `archived` is None where its state is right or not the source's to decide.
    """

    adopt: Sequence[Version]
    archived: bool | None
    left_behind: Sequence[LeftBehind]


def examined(data: bytes, number: int, *, modified: int) -> Version:
    """The version in stored bytes, held to every rule (Mark protocol 7.3, and the document contract)."""
    try:
        check_header(data, number)
        stored = parse_version(data)
        data.decode()
    except VersionError as error:
        return Version(number=number, fault=str(error))
    except UnicodeDecodeError:
        return Version(number=number, fault="it is not valid UTF-8 text")
    if len(stored.body) > limits.BODY:
        return Version(number=number, fault=f"its body is over {limits.BODY} bytes")
    return Version(
        number=number,
        etag=etag(data),
        previous=stored.previous,
        modified=modified,
        size=len(data),
        archived=stored.archived,
    )


def plan(history: History, here: Here | None) -> Plan:
    """What to do so that this store has what the source has. Raises Refused."""
    run, left_behind = newest_run(history.versions, history.current)
    newest = run[-1]
    archived = newest.archived if history.archived is None else history.archived
    if here is None:
        return Plan(adopt=run, archived=archived, left_behind=left_behind)
    adopt = _continuation(run, here)
    if run[0].number < here.first:
        last = min(here.first, newest.number + 1) - 1
        reason = "older than the oldest version here, and nothing can be put before that one"
        left_behind.append(LeftBehind(first=run[0].number, last=last, reason=reason))
    if not adopt and (here.number > newest.number or here.archived == archived):
        return Plan(adopt=(), archived=None, left_behind=left_behind)
    return Plan(adopt=adopt, archived=archived, left_behind=left_behind)


def newest_run(versions: Sequence[Version], current: int | None) -> tuple[list[Version], list[LeftBehind]]:
    """The newest unbroken run, ascending, and what stays behind. Raises Refused when the newest can't come over."""
    if not versions:
        raise Refused("it has no version")
    wanted = versions[-1].number if current is None else current
    if all(version.number != wanted for version in versions):
        raise Refused(f"its newest version is said to be {wanted}, which is not there")
    top = next((i for i in reversed(range(len(versions))) if versions[i].fault is None), -1)
    if top < 0 or versions[top].number < wanted:
        fault = next(version.fault for version in versions if version.number == wanted)
        raise Refused(f"its newest version, {wanted}, can't come over: {fault}")
    left_behind = [
        LeftBehind(first=version.number, last=version.number, reason=version.fault or "")
        for version in versions[top + 1 :]
    ]
    start = top
    while start > 0 and (reason := _break(versions[start - 1], versions[start])) is None:
        start -= 1
    if start > 0:
        reason = _break(versions[start - 1], versions[start])
        left_behind.append(LeftBehind(first=versions[0].number, last=versions[start - 1].number, reason=reason or ""))
    return list(versions[start : top + 1]), left_behind


def _break(older: Version, newer: Version) -> str | None:
    """Why the run can't go on from `newer` to `older`."""
    if older.number != newer.number - 1:
        return f"version {newer.number - 1} is missing"
    if older.fault is not None:
        return f"version {older.number}: {older.fault}"
    if newer.previous != older.etag:
        return f"version {older.number} is not the one that version {newer.number} was made from: their link is broken"
    return None


def _continuation(run: Sequence[Version], here: Here) -> Sequence[Version]:
    """The part of a run that follows what is here. Raises Refused when the two are not one history."""
    newest = run[-1]
    if here.number > newest.number:
        same = here.hashes.get(newest.number)
        if same is not None and same != newest.etag:
            raise Refused(f"version {newest.number} here is another one, and there are newer ones")
        if same is None:
            raise Refused(f"version {here.number} here is newer, and version {newest.number} is no longer retained")
        return ()
    meeting = next((version for version in run if version.number == here.number), None)
    if meeting is not None and meeting.etag != here.hashes[here.number]:
        raise Refused(f"version {here.number} here is another one")
    if meeting is None and (run[0].number != here.number + 1 or run[0].previous != here.hashes[here.number]):
        raise Refused(f"version {here.number} is the newest here, and version {run[0].number} there does not follow it")
    return [version for version in run if version.number > here.number]
