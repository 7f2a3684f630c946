"""VERSIONS (Mark protocol 4.3): the retained versions of a document, newest first, and whether their chain holds.

In `history: protected` the answer also says what upstream servers keep to themselves: whether older versions were
pruned, where the log has the newest one, up to which entry the scrub found every version of the world right and, to a
caller with a credential, who wrote it.
"""

from __future__ import annotations

from demarkus_world.engine.engine import ChainReport, VersionRecord
from demarkus_world.verbs.call import Call, not_found
from mark_protocol.listings import VersionLine, render_versions
from mark_protocol.paths import content_address
from mark_protocol.response import Response
from mark_protocol.status import CHAIN_CHECK_FAILED, Status
from mark_protocol.times import format_rfc3339


async def versions(call: Call) -> Response:
    """Answers a VERSIONS; archived documents have a history as well."""
    call.require_readable(call.path)
    if content_address(call.path) is not None:
        raise not_found(call.path)
    view = await call.engine.view(exact=True)
    records = view.versions(call.path)
    if not records:
        raise not_found(call.path)
    newest = records[-1]
    chain = await call.engine.check_chain(call.path, records)
    metadata = {"total": str(len(records)), "current": str(newest.version), "chain-valid": "true"}
    if not chain.valid:
        metadata |= {"chain-valid": "false", "chain-error": CHAIN_CHECK_FAILED}
    if not call.compatible:
        metadata |= _history(call, newest, chain)
    body = render_versions(call.path, (VersionLine(r.version, format_rfc3339(r.modified)) for r in reversed(records)))
    return Response(Status.OK, metadata, body)


def _history(call: Call, newest: VersionRecord, chain: ChainReport) -> dict[str, str]:
    keys = {
        "chain-state": chain.state,
        "first-retained": str(chain.first_retained),
        "sequence": str(newest.sequence),
    }
    if verified := call.engine.scrubbed.verified_through:
        keys["verified-through"] = str(verified)
    if chain.predecessor_hash is not None:
        keys["predecessor-hash"] = f"sha256-{chain.predecessor_hash}"
    if call.credential is not None:
        author = {"by": newest.by, "credential": newest.credential}
        keys |= {name: text for name, text in author.items() if text is not None}
    return keys
