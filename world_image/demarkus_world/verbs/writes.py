"""What PUBLISH, APPEND and ARCHIVE share (Mark protocol 4): checks in their order, and how refusals are worded."""

from __future__ import annotations

from dataclasses import replace

from demarkus_world.authority import Credential, Denial, Operation
from demarkus_world.content import TOLD
from demarkus_world.engine.engine import (
    Change,
    ContentRefused,
    ContentTooLarge,
    DocumentArchived,
    DocumentMissing,
    MetadataRefused,
    OutcomeUnknown,
    PathCollision,
    PathUnstorable,
    PolicyInvalid,
    PolicyOwned,
    PolicyRefused,
    PolicyRequired,
    ProposalClosed,
    PruneForbidden,
    QuotaExceeded,
    StoreFull,
    VersionConflict,
    Write,
    Written,
)
from demarkus_world.proposals import NotKept, is_proposal, keep
from demarkus_world.verbs.call import Call, Refused, not_found
from mark_protocol.listings import conflict_body
from mark_protocol.metadata import RETENTION, USER, MetadataError, publisher_metadata
from mark_protocol.paths import content_address, unstorable
from mark_protocol.response import Response
from mark_protocol.status import (
    BODY_MUST_BE_TEXT,
    CONTENT_TOO_LARGE,
    DOCUMENT_ARCHIVED,
    HASH_PATH_RESERVED,
    PATH_MUST_END_IN_MD,
    READ_ONLY,
    Status,
)


def authorise(call: Call, operation: Operation, *, unconfigured: str) -> Credential:
    """The credential that permits a write, or Refused; `unconfigured` is the message where nothing could permit it."""
    if call.rules.read_only:
        raise Refused(Status.NOT_PERMITTED, READ_ONLY)
    if content_address(call.path) is not None:
        raise Refused(Status.BAD_REQUEST, HASH_PATH_RESERVED)
    if not call.rules.configured:
        raise Refused(Status.NOT_PERMITTED, unconfigured)
    if is_proposal(call.path):
        raise Refused(Status.BAD_REQUEST, "a proposal is only decided: PUBLISH decision: accept or decision: reject")
    writer = call.rules.writer(call.credential, operation, call.path)
    if isinstance(writer, Denial):
        raise Refused(writer.status, writer.message)
    return writer


def check_document(call: Call) -> None:
    """Refused unless path and body are those of a document: `.md`, UTF-8, a name that the store can hold."""
    if not call.path.endswith(".md"):
        raise Refused(Status.BAD_REQUEST, PATH_MUST_END_IN_MD)
    try:
        call.request.body.decode()
    except UnicodeDecodeError:
        raise Refused(Status.BAD_REQUEST, BODY_MUST_BE_TEXT) from None
    check_storable(call)


def check_storable(call: Call) -> None:
    """Refused if no store could hold a document of this path."""
    rule = unstorable(call.path, versions_segment=call.compatible)
    if rule is not None:
        raise Refused(Status.BAD_REQUEST, f"path can't be stored: {rule}")


def sent_metadata(call: Call, credential: Credential) -> dict[str, str]:
    """The publisher metadata of a write, or Refused.

    The person behind a grant is what the grant says, never what the sender says.
    """
    sent = dict(call.request.metadata)
    if credential.kind == "grant":
        sent.pop(USER, None)
        if credential.user is not None:
            sent[USER] = credential.user
    try:
        metadata = publisher_metadata(sent)
    except MetadataError as error:
        raise Refused(Status.BAD_REQUEST, error.message) from None
    if RETENTION in metadata and not call.ignore_retention and not retention_acts(call, credential, call.path):
        raise Refused(Status.NOT_PERMITTED, f"{RETENTION} needs the prune right")
    return metadata


def retention_acts(call: Call, credential: Credential, path: str) -> bool:
    """Whether a key `retention` of this sender prunes: always in a compatible world, else with the right to prune."""
    return call.compatible or credential.permits(Operation.PRUNE, path)


def told(call: Call, written: Written) -> dict[str, str]:
    """What a response says of the policy's warnings; upstream servers say nothing."""
    if call.compatible or not written.warnings:
        return {}
    return {"policy-warning": "; ".join(written.warnings[:TOLD])}


async def commit_or_propose(call: Call, write: Write) -> Written:
    """As `commit`; what the policy leaves to somebody else is kept as a proposal, and refused naming it."""
    try:
        return await commit(call, write)
    except PolicyRefusal as refusal:
        if not refusal.ask:
            raise
        try:
            refusal.metadata["proposal"] = await keep(call.engine, write, timeout=call.timeout)
        except NotKept as reason:
            refusal.metadata["proposal-error"] = str(reason)
        raise


async def commit(call: Call, write: Change) -> Written:
    """Hands a write to the engine; what it refuses becomes Refused, Conflict or PolicyRefusal."""
    try:
        return await call.engine.write(write, timeout=call.timeout)
    except VersionConflict as error:
        raise Conflict(expected=error.expected, current=error.current, append=write.op == "append") from None
    except DocumentArchived:
        raise Refused(Status.ARCHIVED, DOCUMENT_ARCHIVED) from None
    except DocumentMissing:
        raise not_found(write.path) from None
    except PathCollision as error:
        raise Refused(Status.BAD_REQUEST, f"{error}: path collision") from None
    except PathUnstorable as error:
        raise Refused(Status.BAD_REQUEST, f"path can't be stored: {error.rule}") from None
    except ContentTooLarge:
        raise Refused(Status.SERVER_ERROR, CONTENT_TOO_LARGE) from None
    except MetadataRefused as error:
        raise Refused(Status.BAD_REQUEST, error.message) from None
    except PolicyRefused as error:
        raise PolicyRefusal(error.message, ask=error.ask) from None
    except ContentRefused as error:
        raise Refused(Status.BAD_REQUEST, error.message) from None
    except PolicyInvalid as error:
        raise Refused(Status.BAD_REQUEST, str(error)) from None
    except ProposalClosed as error:
        raise Refused(Status.ARCHIVED, str(error)) from None
    except (PruneForbidden, QuotaExceeded, PolicyOwned, PolicyRequired) as error:
        raise Refused(Status.NOT_PERMITTED, str(error)) from None
    except OutcomeUnknown as error:
        raise Refused(Status.SERVER_ERROR, f"outcome unknown, operation {error.operation}", fault=str(error)) from None
    except StoreFull as error:
        raise Refused(Status.SERVER_ERROR, "store is full", fault=str(error)) from None


class PolicyRefusal(Refused):
    """The policy refuses the write; `metadata` says whether it is kept as a proposal."""

    def __init__(self, message: str, *, ask: bool) -> None:
        super().__init__(Status.BAD_REQUEST, message)
        self.ask = ask
        self.metadata: dict[str, str] = {}

    @property
    def response(self) -> Response:
        return replace(super().response, metadata=self.metadata)


class Conflict(Refused):
    """The document is at another version than the writer expects."""

    def __init__(self, *, expected: int, current: int, append: bool) -> None:
        super().__init__(Status.CONFLICT, f"expected version {expected}, current version {current}")
        self._response = Response(
            status=Status.CONFLICT,
            metadata={"your-version": str(expected), "server-version": str(current)},
            body=conflict_body(expected, current, append=append),
        )

    @property
    def response(self) -> Response:
        return self._response
