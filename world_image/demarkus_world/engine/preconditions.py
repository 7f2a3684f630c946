"""What a write comes to, given what is there: a pure decision, made again whenever another writer came first.

The order of the tests is the protocol's (Mark protocol, PUBLISH): version expectation, path collision, archived,
unchanged, size; then what it says (`judgement`), what this world's owner laid down (`Rules`) and whether there is
space. Nothing is created before all of them have passed.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace

from demarkus_world.engine.decisions import NOTHING_MORE, Content, Decision, Document, Ground, Pruned, Tip
from demarkus_world.engine.judgement import PROPOSAL_LIFE, check_archive, check_authority, check_room, judge
from demarkus_world.engine.model import Adopt, Change, Prune, Settle, Sweep, Write
from demarkus_world.engine.refusals import (
    ContentTooLarge,
    DocumentArchived,
    DocumentMissing,
    MetadataRefused,
    PathCollision,
    ProposalClosed,
    PruneForbidden,
    QuotaExceeded,
    StoreFull,
    VersionConflict,
    VersionRefused,
)
from demarkus_world.view.paths import ancestors
from mark_protocol import limits
from mark_protocol.metadata import (
    RETENTION,
    MetadataError,
    check_store_rules,
    merge_for_append,
    with_default_type,
)
from mark_protocol.numbers import parse_go_integer
from mark_protocol.versions import StoredVersion, VersionError, check_header, encode_version, etag, parse_version


def decide(write: Change, tip: Tip, base: StoredVersion | None = None, *, ground: Ground = NOTHING_MORE) -> Decision:
    """Decide on a write. `base` is the version an APPEND builds on; it is needed when that is the newest one.

    Raises VersionConflict, PathCollision, DocumentArchived, DocumentMissing, ContentTooLarge, MetadataRefused,
    VersionRefused, PruneForbidden, ContentRefused, PolicyRefused, PolicyInvalid, PolicyOwned, PolicyRequired,
    ProposalClosed, ProposalsFull, QuotaExceeded, StoreFull.
    """
    check_authority(write, ground.standard)
    accepts = write.accepts if isinstance(write, Write) else None
    also = (accepts.path, _settle(accepts, tip, ground)) if accepts else None
    decision = replace(_decide(write, tip, base, ground), also=also)
    if decision.content is not None:
        if isinstance(write, Write):
            decision = replace(decision, warnings=_judge(write, decision.content, tip, ground))
        exceeded = ground.rules.quota.exceeded(
            documents=tip.documents,
            size=tip.stored_bytes,
            more_documents=int(decision.new),
            more_bytes=decision.growth,
        )
        if exceeded is not None:
            raise QuotaExceeded(exceeded)
        if ground.full:
            raise StoreFull("store is full")
    return decision


def _decide(write: Change, tip: Tip, base: StoredVersion | None, ground: Ground) -> Decision:
    if isinstance(write, Sweep):
        return Decision(outcome="swept", version=0, after=None, changes=True)
    if isinstance(write, Settle):
        return _settle(write, tip, ground)
    document = tip.document(write.path)
    if isinstance(write, Adopt):
        return _adopt(write, tip, document)
    if isinstance(write, Write) and write.op in ("publish", "seed", "propose"):
        return _publish(write, tip, document, ground)
    if document is None:
        raise DocumentMissing(write.path)
    if isinstance(write, Prune):
        return _prune(write, tip, document, ground)
    if write.op == "append":
        return _append(write, tip, document, base, ground)
    archived = write.op == "archive"
    if archived and not document.archived and write.credential != "local":
        check_archive(write.path, ground.standard)
    return Decision(
        outcome="archived" if archived else "unarchived",
        version=document.version,
        after=replace(document, archived=archived),
        changes=document.archived != archived,
    )


def _judge(write: Write, new: Content, tip: Tip, ground: Ground) -> tuple[str, ...]:
    if write.op == "propose":
        check_room(tip.open_proposals)
    return judge(write, metadata=new.metadata, body=parse_version(new.data).body, standard=ground.standard)


def _settle(settle: Settle, tip: Tip, ground: Ground) -> Decision:
    document = tip.document(settle.path)
    if document is None:
        raise DocumentMissing(settle.path)
    if document.archived:
        raise ProposalClosed(f"{settle.path} is decided")
    modified = tip.retained(settle.path, document.version).modified
    lapsed = modified is not None and modified + PROPOSAL_LIFE <= ground.now
    if settle.verdict == "expire" and not lapsed:
        return Decision(outcome="unchanged", version=document.version, after=document, changes=False)
    if settle.verdict == "accept" and lapsed:
        raise ProposalClosed(f"{settle.path} has expired")
    return Decision(outcome="settled", version=document.version, after=replace(document, archived=True), changes=True)


def _prune(write: Prune, tip: Tip, document: Document, ground: Ground) -> Decision:
    last = document.version - 1
    if write.keep is not None:
        last = min(last, document.version - write.keep)
    if write.before is not None:
        last = min(last, write.before - 1)
    if write.older_than is not None:
        last = _last_older(write.path, tip, first=document.first, last=last, than=write.older_than)
    if last < document.first:
        return Decision(outcome="unchanged", version=document.version, after=document, changes=False)
    pruned = _taken(write.path, tip, ground, newest=document.version, first=document.first, last=last)
    return Decision(
        outcome="pruned",
        version=document.version,
        after=replace(document, first=last + 1),
        changes=True,
        pruned=replace(pruned, erase=write.erase),
    )


def _last_older(path: str, tip: Tip, *, first: int, last: int, than: int) -> int:
    """The last version up to `last` that is older than a time; below `first` if none is. Times never go back."""

    def older(version: int) -> bool:
        modified = tip.retained(path, version).modified
        return modified is not None and modified < than

    return first + bisect_left(range(first, last + 1), True, key=lambda version: not older(version)) - 1


def _taken(path: str, tip: Tip, ground: Ground, *, newest: int, first: int, last: int) -> Pruned:
    """Versions `first` to `last` taken away from a document. Raises PruneForbidden."""
    end = tip.retained(path, last)
    modified = ground.now if end.modified is None else end.modified
    reason = ground.rules.retention.forbids(path, newest=newest, last=last, modified=modified, now=ground.now)
    if reason is not None:
        raise PruneForbidden(reason)
    size = sum(tip.retained(path, version).size for version in range(first, last + 1))
    return Pruned(first=first, last=last, stored=end.stored, size=size)


def _publish(write: Write, tip: Tip, document: Document | None, ground: Ground) -> Decision:
    _check_expectation(write, document)
    _check_place(write.path, tip, document)
    metadata = _checked(write.path, write.metadata)
    body_hash = hashlib.sha256(write.body).hexdigest()
    if document is not None and document.body == body_hash and document.metadata == _persisted(metadata):
        return Decision(outcome="unchanged", version=document.version, after=document, changes=False)
    return _new_version(write, tip, document, metadata, write.body, body_hash, ground)


def joined(base: StoredVersion, write: Write) -> bytes:
    """The body that an APPEND makes of the version it builds on."""
    between = b"\n" if base.body and not base.body.endswith(b"\n") else b""
    return base.body + between + write.body


def _append(write: Write, tip: Tip, document: Document, base: StoredVersion | None, ground: Ground) -> Decision:
    _check_expectation(write, document)
    if document.archived:
        raise DocumentArchived(write.path)
    if base is None or base.number != document.version:
        raise ValueError(f"an append to version {document.version} of {write.path} needs that version")
    body = joined(base, write)
    if len(body) > limits.BODY:
        raise ContentTooLarge(f"{write.path} would have {len(body)} bytes, at most {limits.BODY} are allowed")
    metadata = _checked(write.path, merge_for_append(base.metadata, write.metadata))
    return _new_version(write, tip, document, metadata, body, hashlib.sha256(body).hexdigest(), ground)


def _adopt(write: Adopt, tip: Tip, document: Document | None) -> Decision:
    digest = etag(write.stored)
    if document is not None and (document.version, document.stored) == (write.number, digest):
        # Brought before: only the archive state may differ.
        return Decision(
            outcome="archived" if write.archived and not document.archived else "unchanged",
            version=document.version,
            after=replace(document, archived=document.archived or write.archived),
            changes=write.archived and not document.archived,
        )
    if document is not None and document.version + 1 != write.number:
        raise VersionConflict(expected=write.number - 1, current=document.version)
    if document is None and write.follows:
        raise VersionConflict(expected=write.number - 1, current=0)
    _check_place(write.path, tip, document)
    stored = _well_formed(write)
    if document is not None and stored.previous != document.stored:
        raise VersionRefused(write.path, write.number, "its previous-hash is not the hash of the version before it")
    content = Content(
        data=write.stored,
        stored=digest,
        body=hashlib.sha256(stored.body).hexdigest(),
        metadata=stored.metadata,
        modified=write.modified,
        predecessor=stored.previous if document is None else None,
    )
    after = Document(
        version=write.number,
        first=document.first if document else write.number,
        stored=digest,
        body=content.body,
        archived=write.archived,
        metadata=content.metadata,
    )
    return Decision(
        outcome="created", version=write.number, after=after, changes=True, content=content, new=document is None
    )


def _well_formed(write: Adopt) -> StoredVersion:
    """The version behind adopted bytes, which have to keep every rule to the letter (Mark protocol, hash chain)."""
    try:
        check_header(write.stored, write.number)
        stored = parse_version(write.stored)
        write.stored.decode()
    except VersionError as error:
        raise VersionRefused(write.path, write.number, str(error)) from None
    except UnicodeDecodeError:
        raise VersionRefused(write.path, write.number, "it is not valid UTF-8 text") from None
    if len(stored.body) > limits.BODY:
        raise ContentTooLarge(
            f"{write.path} version {write.number} has {len(stored.body)} bytes, at most {limits.BODY} are allowed"
        )
    if write.number == 1 and stored.previous is not None:
        raise VersionRefused(write.path, write.number, "a first version links to none")
    return stored


def _check_place(path: str, tip: Tip, document: Document | None) -> None:
    """Whether content may be written at the path (Mark protocol, PUBLISH: collisions, then archive state)."""
    if document is None:
        if tip.is_directory(path):
            raise PathCollision(path, kind="directory")
        if any(tip.document(ancestor) is not None for ancestor in ancestors(path)):
            raise PathCollision(path, kind="ancestor")
    elif document.archived:
        raise DocumentArchived(path)


def _check_expectation(write: Write, document: Document | None) -> None:
    current = document.version if document else 0
    if write.expected is not None and write.expected != current:
        raise VersionConflict(expected=write.expected, current=current)


def _checked(path: str, metadata: Mapping[str, str]) -> dict[str, str]:
    complete = with_default_type(path, metadata)
    try:
        check_store_rules(complete)
    except MetadataError as error:
        raise MetadataRefused(error.message) from None
    return complete


def _persisted(metadata: Mapping[str, str]) -> Mapping[str, str]:
    """The metadata a reader of the stored bytes will find: what counts for equality, now and after a restart."""
    return parse_version(encode_version(1, None, metadata, b"")).metadata


def _new_version(
    write: Write,
    tip: Tip,
    document: Document | None,
    metadata: Mapping[str, str],
    body: bytes,
    body_hash: str,
    ground: Ground,
) -> Decision:
    path = write.path
    version = document.version + 1 if document else 1
    data = encode_version(version, document.stored if document else None, metadata, body)
    if len(body) > limits.BODY or len(data) > limits.STORED_VERSION:
        raise ContentTooLarge(f"{path} would have {len(body)} bytes, at most {limits.BODY} are allowed")
    content = Content(data=data, stored=etag(data), body=body_hash, metadata=_persisted(metadata))
    first = document.first if document else 1
    last = _retained_before(metadata, version) if write.retention_acts else 0
    pruned = _taken(path, tip, ground, newest=version, first=first, last=last) if last >= first else None
    after = Document(
        version=version,
        first=pruned.last + 1 if pruned else first,
        stored=content.stored,
        body=body_hash,
        archived=False,
        metadata=content.metadata,
    )
    return Decision(
        outcome="created",
        version=version,
        after=after,
        changes=True,
        content=content,
        pruned=pruned,
        new=document is None,
    )


def _retained_before(metadata: Mapping[str, str], version: int) -> int:
    """The last version that the key `retention: R` on version N takes away, N - R (Mark protocol); 0 = none."""
    keep = parse_go_integer(metadata.get(RETENTION, ""))
    return 0 if keep is None else version - keep
