"""The bytes of versions, rebuilt from recorded requests and nothing else.

Which of them made a version is what the answers say. A server's own codec has no part in this, so an etag or a
`previous-hash` that is found again here is that of the prescribed bytes (Mark protocol 7.2), in its later form or in
the one of March 2026 (14).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import yaml

CONTROL = frozenset(["auth", "expected-version", "if-none-match", "if-modified-since"])
BARE = frozenset(["type", "title", "description", "resource", "timestamp"])
WITHOUT_TYPE = ("/index.md", "/log.md")


@dataclass(frozen=True)
class Version:
    """One version as it is stored."""

    data: bytes
    body: bytes
    metadata: Mapping[str, str]

    @property
    def etag(self) -> str:
        """The hash of all its bytes."""
        return hashlib.sha256(self.data).hexdigest()


def head_of(data: bytes) -> tuple[dict[str, str], bytes]:
    """The entries of the block at the beginning, if there is one, and what follows it."""
    if not data.startswith(b"---\n"):
        return {}, data
    block, fence, rest = data[3:].partition(b"\n---\n")
    return (yaml.load(block, Loader=yaml.BaseLoader) or {}, rest) if fence else ({}, data)


def rebuilt(exchanges: Iterable[tuple[bytes, bytes]], *, march: bool) -> dict[str, list[Version]]:
    """The versions of all documents, by path, that these requests have made, given what they were answered."""
    documents: dict[str, list[Version]] = {}
    for request, answer in exchanges:
        if b"\nstatus: created\n" not in answer.partition(b"\n---\n")[0] + b"\n":
            continue
        line, _, rest = request.partition(b"\n")
        verb, _, raw_path = line.decode().partition(" ")
        path = "/" + "/".join(segment for segment in raw_path.split("/") if segment not in ("", "."))
        sent, body = head_of(rest)
        versions = documents.setdefault(path, [])
        metadata = {key: value for key, value in sent.items() if key not in CONTROL}
        if verb == "APPEND":
            base = versions[int(sent["expected-version"]) - 1]
            body = base.body + (b"" if base.body.endswith(b"\n") or not base.body else b"\n") + body
            metadata = metadata if march else {**base.metadata, **metadata}
        if not march and not metadata.get("type", "").strip() and not path.endswith(WITHOUT_TYPE):
            metadata["type"] = "Document"
        previous = versions[-1].etag if versions else ""
        data = _bytes(len(versions) + 1, previous, metadata, body, march=march)
        versions.append(Version(data, body, metadata))
    return documents


def _bytes(number: int, previous: str, metadata: Mapping[str, str], body: bytes, *, march: bool) -> bytes:
    lines = [f"version: {number}", "archived: false"]
    lines += [f"previous-hash: sha256-{previous}"] if previous else []
    for key in sorted(metadata):
        if not march and key == "tags":
            tags = filter(None, (tag.strip() for tag in metadata[key].split(",")))
            lines.append(f"tags: [{', '.join(tags)}]")
        elif not march and key in BARE:
            lines.append(f"{key}: {metadata[key]}")
        else:
            lines.append(f"meta.{key}: {metadata[key]}")
    return b"---\n" + "\n".join(lines).encode() + b"\n---\n" + body
