"""APPEND (Mark protocol 4.6): text at the end of the version that the writer has seen.

Body and metadata are joined inside the engine, so that they are joined anew if another writer comes first.
"""

from __future__ import annotations

from demarkus_world.authority import Operation
from demarkus_world.engine.engine import Write
from demarkus_world.verbs.call import Call, Refused
from demarkus_world.verbs.writes import (
    authorise,
    check_document,
    commit_or_propose,
    retention_acts,
    sent_metadata,
    told,
)
from mark_protocol.metadata import EXPECTED_VERSION, USER
from mark_protocol.numbers import parse_go_integer
from mark_protocol.response import Response
from mark_protocol.status import (
    APPEND_INVALID_EXPECTED_VERSION,
    APPEND_NEEDS_BODY,
    APPEND_NEEDS_EXPECTED_VERSION,
    APPENDING_NEEDS_TOKENS,
    Status,
)
from mark_protocol.times import format_rfc3339


async def append(call: Call) -> Response:
    """Answers an APPEND."""
    credential = authorise(call, Operation.APPEND, unconfigured=APPENDING_NEEDS_TOKENS)
    check_document(call)
    if not call.request.body:
        raise Refused(Status.SERVER_ERROR, APPEND_NEEDS_BODY)
    metadata = sent_metadata(call, credential)
    if credential.kind == "grant":
        # The base version's person did not write this: without a known one the key says so instead of inheriting.
        metadata.setdefault(USER, "")
    write = Write(
        op="append",
        path=call.path,
        body=call.request.body,
        metadata=metadata,
        expected=_expected(call),
        by=credential.label,
        credential=credential.kind,
        retention_acts=retention_acts(call, credential, call.path),
    )
    written = await commit_or_propose(call, write)
    keys = {"version": str(written.version), "modified": format_rfc3339(written.modified)}
    return Response(Status.CREATED, {**keys, **told(call, written)})


def _expected(call: Call) -> int:
    text = call.key(EXPECTED_VERSION)
    if not text:
        raise Refused(Status.BAD_REQUEST, APPEND_NEEDS_EXPECTED_VERSION)
    number = parse_go_integer(text)
    if number is None or number < 1:
        raise Refused(Status.BAD_REQUEST, APPEND_INVALID_EXPECTED_VERSION)
    return number
