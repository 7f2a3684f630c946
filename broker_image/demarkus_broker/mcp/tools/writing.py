"""What mark_publish and mark_append share: the write itself, and how it is settled when it does not simply succeed.

Nothing is overwritten that its writer has not seen: every write carries the version it was made for, a conflict brings
the text that is there now, and a write whose answer was lost is looked up, never sent again (Mark protocol 1.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from demarkus_broker.mcp.tools.answers import ordered, outcome
from demarkus_broker.mcp.tools.tool import A, Call, Kind, Outcome, Refusal, Target
from mark_protocol.merge import Merged, merge
from mark_protocol.metadata import AGENT, CONTROL_KEYS, EXPECTED_VERSION, STORE_KEYS, TAGS, USER, normalise_tags
from mark_protocol.request import Request, Verb
from mark_protocol.response import Response
from mark_protocol.status import Status

STAMPED = frozenset({AGENT, USER})
"""Set on the way, never by the caller: `agent` by the gateway, `user` by the world from the grant."""

MERGE_CANDIDATE = "merge-candidate"
"""The gateway's own word: nothing was written, and here is a text that holds both changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A PUBLISH or APPEND for one version.

    Attributes:
        metadata: the publisher keys as they are sent.
        merged: whether a conflict is answered with a text that holds both changes, for its caller to look through.
    """

    verb: Verb
    path: str
    expected: int
    body: bytes
    metadata: Mapping[str, str] = field(default_factory=dict)
    merged: bool = False

    @property
    def request(self) -> Request:
        """The write as it is sent."""
        metadata = {**self.metadata, EXPECTED_VERSION: str(self.expected)}
        return Request(self.verb, self.path, metadata, self.body)


def publisher_metadata(given: Mapping[str, str], agent: str) -> dict[str, str]:
    """The caller's metadata as it is sent: `agent` and `user` replaced. Raises Refusal for keys that are not theirs."""
    for key in sorted(given.keys() & (CONTROL_KEYS | STORE_KEYS)):
        raise Refusal(Kind.ARGUMENT, f"metadata.{key}: is not yours to set", "Leave it out.")
    return {**{key: value for key, value in given.items() if key not in STAMPED}, AGENT: agent}


async def send(call: Call[A], target: Target, write: Write) -> Outcome:
    """Make the write and say what became of it."""
    try:
        response = await call.ask(target, write.request)
    except Refusal as lost:
        if lost.kind is not Kind.OUTCOME_UNKNOWN:
            raise
        return await _settle(call, target, write, lost)
    if response.status == Status.CONFLICT:
        return await _conflict(call, target, write, response.metadata.get("server-version", ""))
    return outcome(response)


class _Found(Enum):
    """What is at the version that the write was to make."""

    OURS = auto()
    ANOTHER = auto()
    NOTHING = auto()


async def _look(call: Call[A], target: Target, write: Write) -> tuple[_Found, Response]:
    """Look at the version that the write was to make: whole body and every sent key decide, not a likeness."""
    there = await fetch_version(call, target, write.expected + 1)
    if there.status != Status.OK:
        return _Found.NOTHING, there
    wanted = write.body
    if write.verb is Verb.APPEND:
        base = await fetch_version(call, target, write.expected)
        if base.status != Status.OK:
            return _Found.ANOTHER, there  # pruned: it can't be shown to be ours
        wanted = joined(base.body, write.body)
    same = there.body == wanted and all(
        _same(key, value, there.metadata.get(key, "")) for key, value in write.metadata.items()
    )
    return (_Found.OURS if same else _Found.ANOTHER), there


async def _settle(call: Call[A], target: Target, write: Write, lost: Refusal) -> Outcome:
    """Find out what became of a write whose answer was lost."""
    try:
        found, there = await _look(call, target, write)
    except Refusal:
        raise lost from None
    if found is _Found.OURS:
        return _made(there, help="The world's answer was lost on the way; the write itself is there.")
    if found is _Found.ANOTHER:
        return await _conflict(call, target, write, there.metadata.get("version", ""))
    raise Refusal(
        Kind.TRY_LATER,
        "the world's answer was lost on the way, and the write is not there",
        "Make the same call again: with its expected_version it can't be applied twice.",
    )


async def _conflict(call: Call[A], target: Target, write: Write, version: str) -> Outcome:
    """The answer to a write that came too late: with the text that is there now, so that nobody loses one.

    If the version it was to make is this very write (its caller repeats it after a lost answer), it is reported as
    made. `version` is the document's as far as it is known already.
    """
    try:
        current = await call.ask(target, Request(Verb.FETCH, target.path))
        version = current.metadata.get("version", version)
        if version != str(write.expected):
            found, there = await _look(call, target, write)
            if found is _Found.OURS:
                help = "This write had been made before; it was not made again."
                if version not in ("", str(write.expected + 1)):
                    help += f" The document is at version {version} by now."
                return _made(there, help=help)
        candidate = await _candidate(call, target, write, current) if write.merged else None
    except Refusal:
        current = Response(status="")  # the world has just gone: its conflict is still the answer
        candidate = None
    keys = {"your-version": str(write.expected), "server-version": version}
    if current.status != Status.OK:
        return Outcome(
            status=Status.CONFLICT,
            keys=keys,
            help=f"The document is at version {version}: mark_fetch it, put your change into its text, "
            "and write that with the version you fetched as expected_version.",
        )
    text = current.body.decode("utf-8", errors="replace")
    data = {"current": {"version": version, "metadata": ordered(current.metadata), "body": text}}
    if candidate is not None:
        return _proposed(write, candidate, version, data)
    return Outcome(
        status=Status.CONFLICT,
        keys=keys,
        body=f"Nothing was written. The document as it is now, version {version}:\n\n{text}",
        help=f"Put your change into the text below and write it with expected_version {version}.",
        data=data,
    )


async def _candidate(call: Call[A], target: Target, write: Write, current: Response) -> Merged | None:
    """The write's text and the current one put together; None where there is nothing to compare them with."""
    if current.status != Status.OK or write.verb is not Verb.PUBLISH or not write.body:
        return None
    base = b""
    if write.expected:
        before = await fetch_version(call, target, write.expected)
        if before.status != Status.OK:
            return None  # pruned
        base = before.body
    try:
        current.body.decode("utf-8")
    except UnicodeDecodeError:
        return None
    version = current.metadata.get("version", "")
    labels = {"our_label": "yours", "their_label": f"version {version}"}
    return await asyncio.to_thread(merge, base, write.body, current.body, **labels)


def _proposed(write: Write, candidate: Merged, version: str, data: Mapping[str, object]) -> Outcome:
    """A merge for the caller to look through. It is never written without them."""
    if candidate.conflicts:
        todo = "Both texts are in the one below. Settle what stands between markers,"
    else:
        todo = "The text below holds both changes. Look it through,"
    return Outcome(
        status=MERGE_CANDIDATE,
        keys={
            "your-version": str(write.expected),
            "current-version": version,
            "publish-at-version": version,
            "has-markers": "true" if candidate.conflicts else "false",
        },
        body=candidate.text.decode("utf-8"),
        help=f"Nothing was written: the document has changed. {todo} and publish it with expected_version {version}.",
        data=data,
    )


def joined(base: bytes, addition: bytes) -> bytes:
    """A body after APPEND (Mark protocol, APPEND): a line feed between the two unless the first ends in one."""
    return base + (b"\n" if base and not base.endswith(b"\n") else b"") + addition


async def fetch_version(call: Call[A], target: Target, version: int) -> Response:
    return await call.ask(target, Request(Verb.FETCH, f"{target.path}/v{version}"))


def _same(key: str, sent: str, stored: str) -> bool:
    return normalise_tags(sent) == normalise_tags(stored) if key == TAGS else sent == stored


def _made(there: Response, *, help: str) -> Outcome:
    keys = {key: there.metadata[key] for key in ("version", "modified") if key in there.metadata}
    return Outcome(status=Status.CREATED, keys=keys, help=help)
