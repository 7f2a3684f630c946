"""A large store on a disk at once: bundles and the newest versions, made with the engine's own encoders.

It is what a volume holds whose bundled slots are old enough to be gone. Of each document only the newest version's
bytes are there: nothing that is measured reads others.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from demarkus_world.engine import bundles, identity, keys, slots
from demarkus_world.engine.entries import Entry, Op
from demarkus_world.engine.model import Identity
from demarkus_world.engine.slots import NO_SLOT, Slot
from mark_protocol.versions import encode_version, etag

IDENTITY = Identity("a" * 32, "b" * 32)
START = 1_790_000_000_000
FOLDERS = 1000
WORDS = ("tea", "kettle", "steam", "leaf", "cup", "water", "green", "black", "oolong", "spring", "roast", "pour")
SLOTS_OF_A_BUNDLE = bundles.MOST // slots.ENTRIES


@dataclass(frozen=True, slots=True)
class Size:
    """How many documents there are, and how many versions of all of them together."""

    documents: int
    versions: int


def path_of(document: int) -> str:
    """Where a document is."""
    return f"/area-{document % FOLDERS // 50:02}/topic-{document % FOLDERS:03}/document-{document:06}.md"


def fill(store: Path, size: Size) -> None:
    """Write the store of a world into an empty folder, without syncing anything."""
    _put(store, keys.WORLD, identity.encode(IDENTITY))
    prev, first = NO_SLOT, 1
    copied: list[bytes] = []
    for page in _pages(_entries(store, size)):
        data = slots.encode(Slot(history=IDENTITY.history, first=first, writer="c" * 32, prev=prev, entries=page))
        prev, first = slots.slot_hash(data), first + len(page)
        copied.append(data)
        if len(copied) == SLOTS_OF_A_BUNDLE:
            _put_bundle(store, copied)
            copied = []
    if copied:
        _put_bundle(store, copied)


def _entries(store: Path, size: Size) -> Iterator[Entry]:
    chance = random.Random(1)
    newest: list[str | None] = [None] * size.documents
    for number in range(size.versions):
        document, version = number % size.documents, number // size.documents + 1
        path = path_of(document)
        words = " ".join(chance.choices(WORDS, k=40))
        body = f"# Document {document}\n\nThis is version {version}.\n\n{words}\n".encode()
        metadata = {"type": "note", "title": f"Document {document}", "tags": ",".join(chance.sample(WORDS, 2))}
        stored = encode_version(version, newest[document], metadata, body)
        digest = newest[document] = etag(stored)
        blob = keys.blob(path, version, digest, f"{chance.getrandbits(32):08x}")
        if number + size.documents >= size.versions:
            _put(store, blob, stored)
        yield Entry(
            seq=number + 1,
            time=START + number,
            op=Op.PUBLISH,
            path=path,
            version=version,
            operation=f"{number:032x}",
            by="benchmark",
            credential="token",
            stored=digest,
            body=hashlib.sha256(body).hexdigest(),
            size=len(stored),
            blob=blob,
        )


def _pages(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    page: list[Entry] = []
    for entry in entries:
        page.append(entry)
        if len(page) == slots.ENTRIES:
            yield page
            page = []
    if page:
        yield page


def _put_bundle(store: Path, copied: list[bytes]) -> None:
    bundle, data = bundles.encode(IDENTITY.history, copied)
    _put(store, bundle.key, data)


def _put(store: Path, key: str, data: bytes) -> None:
    file = store / key
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
