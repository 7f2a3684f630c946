"""The check of a document's history (Mark protocol, hash chain), with what only the log can add.

Upstream compares the versions with one another; here each is also compared with its entry, so an edit of the newest
version shows, and the oldest retained one with the hash that the prune before it recorded.
"""

import asyncio
import hashlib
from collections.abc import Sequence

from demarkus_world.engine.model import ChainReport, VersionRecord
from demarkus_world.engine.parallel import PARALLEL, in_parallel
from demarkus_world.engine.refusals import StoreDamaged
from demarkus_world.engine.versions import Versions
from mark_protocol.versions import VersionError, check_header, parse_version

NEWEST = 64
"""So many are read with every check; the scrub goes through the others."""


async def check(records: Sequence[VersionRecord], predecessor: str | None, versions: Versions) -> ChainReport:
    """Read the newest versions anew and check them. `predecessor` is the hash of the version before the first.

    Raises Unavailable when the store can't be read; a fault of the history is the report's.
    """
    first = records[0].version
    for start in range(max(0, len(records) - NEWEST), len(records), PARALLEL):
        page = records[start : start + PARALLEL]
        links = [records[start - 1].etag if start else predecessor, *(record.etag for record in page[:-1])]
        try:
            found = await in_parallel(versions.fetch, page)
        except StoreDamaged as error:
            return ChainReport(state="broken", first_retained=first, predecessor_hash=predecessor, fault=str(error))
        fault = await asyncio.to_thread(_first_fault, page, links, found)
        if fault is not None:
            return ChainReport(state="broken", first_retained=first, predecessor_hash=predecessor, fault=fault)
    return ChainReport(
        state="intact" if predecessor is None else "pruned", first_retained=first, predecessor_hash=predecessor
    )


def _first_fault(records: Sequence[VersionRecord], links: Sequence[str | None], found: Sequence[bytes]) -> str | None:
    for record, link, data in zip(records, links, found, strict=True):
        fault = fault_of(record, link, data)
        if fault is not None:
            return f"{record.path} version {record.version} ({record.blob}): {fault}"
    return None


def fault_of(record: VersionRecord, link: str | None, data: bytes) -> str | None:
    """What is wrong with the bytes of a version that follows the one with the hash `link`; None if nothing is."""
    if hashlib.sha256(data).hexdigest() != record.etag or len(data) != record.size:
        return "its bytes are not those the log recorded"
    try:
        check_header(data, record.version)
        stored = parse_version(data)
    except VersionError as error:
        return str(error)
    if stored.previous != link:
        return f"it links to {stored.previous}, the version before it is {link}"
    if hashlib.sha256(stored.body).hexdigest() != record.body_hash:
        return "its body is not the one the log recorded"
    return None
