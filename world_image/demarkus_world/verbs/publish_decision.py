"""The decision on a proposal: a PUBLISH to its path that says `decision: accept` or `decision: reject`.

In metadata, or as a line of the body. Who decides has `review` and `write` on the document in question and is not the
author. An accepted write is committed in one slot with the decision, after all checks anew; only what a policy `ask`
finds in its metadata does not stop it any more.
"""

from __future__ import annotations

import re
from dataclasses import replace

from demarkus_world.authority import AUTHENTICATION_REQUIRED, INSUFFICIENT_PERMISSIONS, Credential, Operation
from demarkus_world.engine.engine import Settle
from demarkus_world.proposals import NoProposal, made_by, target_of, write_of
from demarkus_world.verbs.call import Call, Refused, not_found, refuse
from demarkus_world.verbs.writes import commit, retention_acts, told
from mark_protocol.metadata import RETENTION
from mark_protocol.response import Response
from mark_protocol.status import PUBLISHING_NEEDS_TOKENS, READ_ONLY, Status
from mark_protocol.times import format_rfc3339

DECISION = "decision"
_LINE = re.compile(r"^decision:[ \t]*(\S+)[ \t]*\r?$", re.MULTILINE)


async def decide(call: Call) -> Response:
    """Answers a PUBLISH to the path of a proposal."""
    if call.rules.read_only:
        raise Refused(Status.NOT_PERMITTED, READ_ONLY)
    if not call.rules.configured:
        raise Refused(Status.NOT_PERMITTED, PUBLISHING_NEEDS_TOKENS)
    reviewer = call.credential
    if reviewer is None:
        raise Refused(*AUTHENTICATION_REQUIRED)
    view = await call.engine.view(exact=True)
    head = view.head(call.path)
    target = target_of(head) if head is not None else None
    if not reviewer.may_somewhere(Operation.REVIEW):
        refuse(INSUFFICIENT_PERMISSIONS)
    if head is None or target is None:
        raise not_found(call.path)
    if not (reviewer.permits(Operation.REVIEW, target) and reviewer.permits(Operation.WRITE, target)):
        refuse(INSUFFICIENT_PERMISSIONS)
    if made_by(head, reviewer):
        raise Refused(Status.NOT_PERMITTED, "a proposal is decided by somebody else than its author")
    if head.archived:
        raise Refused(Status.ARCHIVED, f"{call.path} is decided")
    if _decision(call) == "reject":
        settle = Settle(path=call.path, verdict="reject", by=reviewer.label, credential=reviewer.kind)
        await commit(call, settle)
        return Response(Status.OK, {DECISION: "reject"})
    return await _accept(call, reviewer, await call.engine.stored(head.record))


async def _accept(call: Call, reviewer: Credential, stored: bytes) -> Response:
    head = (await call.engine.view(exact=False)).head(call.path)
    assert head is not None, "documents do not go away"
    try:
        write = write_of(head.record, stored)
    except NoProposal as error:
        raise Refused(Status.BAD_REQUEST, str(error)) from None
    prunes = retention_acts(call, reviewer, write.path)
    if RETENTION in write.metadata and not call.ignore_retention and not prunes:
        raise Refused(Status.NOT_PERMITTED, f"{RETENTION} needs the prune right")
    settle = Settle(path=call.path, verdict="accept", by=reviewer.label, credential=reviewer.kind)
    written = await commit(call, replace(write, accepts=settle, retention_acts=prunes))
    status = Status.CREATED if written.outcome == "created" else Status.OK
    keys = {DECISION: "accept", "version": str(written.version), "modified": format_rfc3339(written.modified)}
    return Response(status, {**keys, **told(call, written)})


def _decision(call: Call) -> str:
    said = call.key(DECISION).strip()
    if not said:
        line = _LINE.search(call.request.body.decode(errors="replace"))
        said = line[1] if line else ""
    if said not in ("accept", "reject"):
        raise Refused(Status.BAD_REQUEST, "a proposal is decided with decision: accept or decision: reject")
    return said
