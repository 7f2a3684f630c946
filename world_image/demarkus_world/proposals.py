"""Proposals: writes that the policy `ask` leaves to somebody else, kept as documents until they are decided.

A proposal is the document `/.well-known/demarkus/proposals/<id>.md`. Its text is the request as it came, without its
credential: verb and path, metadata, body. Metadata `target` names the document it is about. Who reads it has a
credential, and may read that document or is its author. A decision archives it; so does its 30th day.
"""

from __future__ import annotations

import hashlib
import logging

from demarkus_world.authority import Credential
from demarkus_world.engine.engine import (
    Engine,
    EngineError,
    Head,
    OutcomeUnknown,
    Settle,
    Unavailable,
    VersionConflict,
    VersionRecord,
    View,
    Write,
    WriteRefused,
)
from demarkus_world.engine.judgement import PROPOSAL_LIFE
from demarkus_world.policy import PROPOSALS
from mark_protocol import limits
from mark_protocol.metadata import EXPECTED_VERSION
from mark_protocol.request import Request, RequestError, Verb, encode_request, parse_request
from mark_protocol.versions import parse_version

TARGET = "target"

logger = logging.getLogger(__name__)


class NotKept(Exception):
    """A write can't be kept as a proposal; the text says why."""


class NoProposal(Exception):
    """A document among the proposals that is none; the text says why."""


def is_proposal(path: str) -> bool:
    """Whether a path is one of proposals."""
    return path.startswith(f"{PROPOSALS}/")


def path_of(name: str) -> str:
    """The path of a proposal by its id."""
    return f"{PROPOSALS}/{name}.md"


def target_of(head: Head) -> str | None:
    """The document that a proposal is about."""
    return head.metadata.get(TARGET)


def made_by(head: Head, credential: Credential) -> bool:
    """Whether this is the credential that made the proposal."""
    return (head.record.by, head.record.credential) == (credential.label, credential.kind)


async def keep(engine: Engine, write: Write, *, timeout: float) -> str:
    """Keeps a write as a proposal and returns its id; the same write of the same author is kept once.

    Raises NotKept.
    """
    expected = {} if write.expected is None else {EXPECTED_VERSION: str(write.expected)}
    body = encode_request(Request(Verb(write.op.upper()), write.path, {**write.metadata, **expected}, write.body))
    if len(body) > limits.BODY:
        raise NotKept("it is too large to be kept")
    digest = hashlib.sha256(body).hexdigest()
    try:
        view = await engine.view(exact=True)
        for path in view.by_body(digest):
            head = view.head(path)
            if is_proposal(path) and head is not None and (head.record.by, head.record.credential) == _author(write):
                return path.removeprefix(f"{PROPOSALS}/").removesuffix(".md")
        name = hashlib.sha256(f"{view.sequence} {write.credential} {write.by} {digest}".encode()).hexdigest()[:16]
        await engine.write(
            Write(
                op="propose",
                path=path_of(name),
                body=body,
                metadata={"type": "Proposal", TARGET: write.path},
                expected=0,
                by=write.by,
                credential=write.credential,
            ),
            timeout=timeout,
        )
    except VersionConflict:
        return name  # the very same request came twice at once
    except (OutcomeUnknown, Unavailable) as error:
        logger.warning("a proposal could not be kept: %s", error)
        raise NotKept("the store is unavailable; try again later") from None
    except EngineError as error:
        if not isinstance(error, WriteRefused):
            logger.error("a proposal could not be kept: %s", error)
            raise NotKept("the store can't take it") from None
        raise NotKept(str(error)) from None
    return name


def write_of(record: VersionRecord, stored: bytes) -> Write:
    """The write behind a proposal. Raises NoProposal."""
    try:
        request = parse_request(parse_version(stored).body)
    except RequestError as error:
        raise NoProposal(error.message) from None
    metadata = dict(request.metadata)
    expected = metadata.pop(EXPECTED_VERSION, "")
    if request.verb not in (Verb.PUBLISH, Verb.APPEND) or not record.by or record.credential not in ("token", "grant"):
        raise NoProposal(f"{record.path} is no write of somebody")
    return Write(
        op="publish" if request.verb is Verb.PUBLISH else "append",
        path=request.path,
        body=request.body,
        metadata=metadata,
        expected=int(expected) if expected.isdecimal() else None,
        by=record.by,
        credential="token" if record.credential == "token" else "grant",
    )


async def expire(engine: Engine, *, now: int) -> int:
    """Closes the proposals that waited too long at `now` (ms); how many. Raises EngineError."""
    view = await engine.view(exact=True)
    due = [head.record.path for head in _open(view) if head.record.modified + PROPOSAL_LIFE <= now]
    for path in due:
        await engine.write(Settle(path=path, verdict="expire"))
    return len(due)


def _open(view: View) -> list[Head]:
    children = view.children(PROPOSALS)
    return [child.head for child in children if child.head is not None and not child.head.archived]


def _author(write: Write) -> tuple[str, str]:
    return write.by, write.credential
