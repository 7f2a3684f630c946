"""What is fuzzed, by name: functions of bytes that raise when something is not as it has to be.

A target stands for one subject. Inputs that were worth keeping are in `corpus/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.fuzz import documents, names, packets, rights, wire

Target = Callable[[bytes], None]

TARGETS: Mapping[str, Target] = {
    target.__name__: target
    for target in (
        wire.requests,
        wire.built_requests,
        wire.responses,
        wire.built_responses,
        wire.blocks,
        wire.built_blocks,
        wire.watches,
        wire.built_watches,
        wire.change_cursors,
        names.urls,
        names.references,
        names.paths,
        names.keys,
        names.list_cursors,
        names.numbers,
        names.times,
        rights.path_patterns,
        rights.token_files,
        rights.built_token_files,
        rights.grants,
        rights.key_sets,
        documents.publisher_metadata,
        documents.stored_versions,
        documents.listings,
        documents.lookups,
        documents.markdown,
        documents.graphs,
        packets.datagrams,
    )
}
WORDS = Path(__file__).with_name("words.dict")
"""Words of the formats, for libFuzzer."""


def any_of_them(data: bytes) -> None:
    """The target that the first byte names, with the rest."""
    if data:
        list(TARGETS.values())[data[0] % len(TARGETS)](data[1:])
