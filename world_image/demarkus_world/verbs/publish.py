"""PUBLISH (Mark protocol 4.4): a new version of a document; without a body it unarchives."""

from __future__ import annotations

from demarkus_world.authority import Operation
from demarkus_world.engine.engine import Write
from demarkus_world.proposals import is_proposal
from demarkus_world.verbs.call import Call, Refused
from demarkus_world.verbs.publish_decision import decide
from demarkus_world.verbs.writes import (
    authorise,
    check_document,
    commit,
    commit_or_propose,
    retention_acts,
    sent_metadata,
    told,
)
from mark_protocol.metadata import EXPECTED_VERSION, MetadataError, check_store_rules, with_default_type
from mark_protocol.numbers import parse_go_integer
from mark_protocol.response import Response
from mark_protocol.status import INVALID_EXPECTED_VERSION, PUBLISHING_NEEDS_TOKENS, Status
from mark_protocol.times import format_rfc3339


async def publish(call: Call) -> Response:
    """Answers a PUBLISH. Unarchiving is the right to archive, not the right to write."""
    if is_proposal(call.path):
        return await decide(call)
    if not call.request.body:
        return await _unarchive(call)
    credential = authorise(call, Operation.WRITE, unconfigured=PUBLISHING_NEEDS_TOKENS)
    check_document(call)
    metadata = with_default_type(call.path, sent_metadata(call, credential))
    try:
        check_store_rules(metadata)
    except MetadataError as error:
        raise Refused(Status.BAD_REQUEST, error.message) from None
    write = Write(
        op="publish",
        path=call.path,
        body=call.request.body,
        metadata=metadata,
        expected=_expected(call),
        by=credential.label,
        credential=credential.kind,
        retention_acts=retention_acts(call, credential, call.path),
    )
    written = await commit_or_propose(call, write)
    status = Status.CREATED if written.outcome == "created" else Status.OK
    keys = {"version": str(written.version), "modified": format_rfc3339(written.modified)}
    return Response(status, {**keys, **told(call, written)})


async def _unarchive(call: Call) -> Response:
    credential = authorise(call, Operation.ARCHIVE, unconfigured=PUBLISHING_NEEDS_TOKENS)
    check_document(call)
    write = Write(op="unarchive", path=call.path, by=credential.label, credential=credential.kind)
    written = await commit(call, write)
    return Response(Status.OK, {"version": str(written.version)})


def _expected(call: Call) -> int | None:
    text = call.key(EXPECTED_VERSION)
    if not text:
        return None
    number = parse_go_integer(text)
    if number is None or number < 0:
        raise Refused(Status.BAD_REQUEST, INVALID_EXPECTED_VERSION)
    return number
