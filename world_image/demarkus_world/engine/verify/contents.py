"""The stored bytes of every retained version, compared with what the log recorded of them.

A version is right when its bytes have the recorded hash and size, its header is one that worlds write, it links to the
version before it and its body has the recorded hash. So an altered entry does not help whoever alters a version.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from demarkus_base.blobs.port import Blobs, Integrity, NotFound
from demarkus_world.engine import retry
from demarkus_world.engine.parallel import PARALLEL, in_parallel
from demarkus_world.engine.verify.findings import KEPT, Fault, Finding
from demarkus_world.engine.verify.ledger import Ledger, Retained
from mark_protocol.versions import VersionError, check_header, parse_version

PAGE = PARALLEL * 4
WRITTEN = " after it was written: "

Read = bytes | str | None
"""What a blob turned out to be: its bytes, the driver's word that it is damaged, or nothing."""


class Contents:
    """Reads retained versions; `versions` and `bytes` say how much was read, `more` how many findings were left out."""

    def __init__(self, blobs: Blobs, ledger: Ledger, *, pause: retry.Pause) -> None:
        self.versions = 0
        self.more = 0
        self.bytes = 0
        self._blobs = blobs
        self._ledger = ledger
        self._pause = pause

    async def check(self, paths: Iterable[str], told: Callable[[int], None]) -> list[Finding]:
        """What is wrong with the retained versions of these documents. Raises Unavailable."""
        findings: list[Finding] = []
        strange: dict[str, list[int]] = {}
        retained = (version for path in paths for version in self._ledger.retained(path))
        while page := list(islice(retained, PAGE)):
            found = await in_parallel(self._read, page)
            for finding, digest in await asyncio.to_thread(_faults, page, found):
                if len(findings) == KEPT:
                    self.more += 1
                    continue
                if digest is not None:
                    strange.setdefault(digest, []).append(len(findings))
                findings.append(finding)
            self.versions += len(page)
            told(self.versions)
        if strange:
            self._name_owners(findings, strange)
        return findings

    def _name_owners(self, findings: list[Finding], strange: Mapping[str, Sequence[int]]) -> None:
        """Say of bytes found in the wrong place whose they are, if they are a retained version's."""
        for path in self._ledger.paths():
            for version in self._ledger.retained(path):
                for place in strange.get(version.stored, ()):
                    finding = findings[place]
                    before = finding.text.partition(WRITTEN)[0] + WRITTEN
                    text = f"{before}{finding.object} holds the bytes of version {version.version} of {path}"
                    findings[place] = replace(finding, text=text, field=None)

    async def _read(self, version: Retained) -> Read:
        try:
            data = await retry.read(lambda: self._blobs.get(version.blob), pause=self._pause)
        except NotFound:
            return None
        except Integrity as error:
            return str(error)
        self.bytes += len(data)
        return data


def _faults(page: Sequence[Retained], found: Sequence[Read]) -> list[tuple[Finding, str | None]]:
    """What is wrong, and the hash of the bytes that are there instead of the right ones."""
    judged = (_fault(version, data) for version, data in zip(page, found, strict=True))
    return [fault for fault in judged if fault is not None]


def _fault(version: Retained, data: Read) -> tuple[Finding, str | None] | None:
    name = f"{_rank(version)} of {version.path} (version {version.version})"
    if data is None:
        text = f"{name} is missing: {version.blob} is gone, and nothing in the log pruned it"
        return _finding(version, Fault.VERSION_MISSING, None, text), None
    if isinstance(data, str):
        return _finding(version, Fault.VERSION_ALTERED, None, f"{name} can't be read back: {data}"), None
    digest = hashlib.sha256(data).hexdigest()
    if digest != version.stored:
        field, detail = _difference(version, data)
        text = f"{name} was altered{WRITTEN}{detail}"
        return _finding(version, Fault.VERSION_ALTERED, field, text), digest
    if len(data) != version.size:
        text = f"{name} has {len(data)} bytes and the hash that the log recorded, but the log says {version.size}"
        return _finding(version, Fault.VERSION_ALTERED, "size", text), None
    inner = _inner_fault(version, data, name)
    return None if inner is None else (inner, None)


def _difference(version: Retained, data: bytes) -> tuple[str | None, str]:
    """Which part of a version is another, as well as can be told from the bytes, and in words."""
    if not data:
        return None, f"{version.blob} is empty"
    try:
        body = parse_version(data).body
    except VersionError:
        return "header", f"{version.blob} is no stored version any more"
    if hashlib.sha256(body).hexdigest() == version.body:
        return "header", f"its text is unchanged, the lines above it in {version.blob} are not"
    return "body", f"the text in {version.blob} is not the one whose hash the log recorded"


def _inner_fault(version: Retained, data: bytes, name: str) -> Finding | None:
    """What bytes that have the recorded hash say against themselves: then the log was altered with them."""
    try:
        check_header(data, version.version)
        stored = parse_version(data)
    except VersionError as error:
        text = f"{name} and its entry were altered: {version.blob} is no version a world would write ({error})"
        return _finding(version, Fault.VERSION_ALTERED, "header", text)
    if hashlib.sha256(stored.body).hexdigest() != version.body:
        text = f"entry {version.entry} names another text for {name} than {version.blob} holds"
        return _finding(version, Fault.VERSION_ALTERED, "body", text)
    if version.follows and stored.previous != version.previous:
        text = (
            f"{name} does not follow the version before it, which was altered, left out or replaced: "
            f"it was written after {stored.previous or 'nothing'}, the log has {version.previous or 'nothing'} there"
        )
        return _finding(version, Fault.VERSION_UNLINKED, "previous-hash", text)
    return None


def _finding(version: Retained, fault: Fault, field: str | None, text: str) -> Finding:
    return Finding(
        fault=fault,
        object=version.blob,
        text=text,
        entry=version.entry,
        field=field,
        path=version.path,
        version=version.version,
    )


def _rank(version: Retained) -> str:
    if version.newest:
        return "the newest version"
    return "the oldest retained version" if version.oldest else "an earlier version"
