"""The order of the tests a write has to pass (C16): of two reasons to refuse, the earlier one is given."""

import hashlib
from dataclasses import replace

import pytest

from demarkus_world.engine.decisions import Document, Retained
from demarkus_world.engine.model import Write
from demarkus_world.engine.preconditions import decide
from demarkus_world.engine.refusals import (
    ContentTooLarge,
    DocumentArchived,
    DocumentMissing,
    PathCollision,
    VersionConflict,
    WriteRefused,
)
from mark_protocol.versions import StoredVersion

HUGE = b"x" * (1024 * 1024 + 1)
TEXT = b"text\n"
THERE = Document(
    version=3,
    first=2,
    stored="c" * 64,
    body=hashlib.sha256(TEXT).hexdigest(),
    archived=False,
    metadata={"type": "Document"},
)
BASE = StoredVersion(3, False, "b" * 64, {"type": "Document"}, TEXT)


class Tip:
    """A state made of what a test names."""

    def __init__(self, documents: dict[str, Document], directories: frozenset[str] = frozenset()) -> None:
        self._documents = documents
        self._directories = directories

    def document(self, path: str) -> Document | None:
        return self._documents.get(path)

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    @property
    def documents(self) -> int:
        return len(self._documents)

    @property
    def open_proposals(self) -> int:
        return 0

    @property
    def stored_bytes(self) -> int:
        return 100 * len(self._documents)

    def retained(self, path: str, version: int) -> Retained:
        return Retained(stored=f"{version:064x}", size=100, modified=version * 1000)


ARCHIVED = Tip({"/a.md": replace(THERE, archived=True)})
PLAIN = Tip({"/a.md": THERE})
UNREADABLE = Tip({"/a.md": replace(THERE, metadata=None)})
DIRECTORY = Tip({}, frozenset({"/a.md"}))
BELOW = Tip({"/a.md": THERE})


def publish(body: bytes = TEXT, *, path: str = "/a.md", expected: int | None = None, **metadata: str) -> Write:
    return Write(
        op="publish", path=path, body=body, metadata=metadata, expected=expected, by="kettle", credential="token"
    )


def append(body: bytes = TEXT, *, expected: int = 3) -> Write:
    return Write(op="append", path="/a.md", body=body, expected=expected, by="kettle", credential="token")


@pytest.mark.parametrize(
    ("tip", "write", "refusal"),
    [
        (ARCHIVED, publish(HUGE, expected=2), VersionConflict),
        (DIRECTORY, publish(HUGE, expected=1), VersionConflict),
        (BELOW, publish(HUGE, path="/a.md/b.md", expected=1), VersionConflict),
        (DIRECTORY, publish(HUGE, expected=0), PathCollision),
        (BELOW, publish(HUGE, path="/a.md/b.md"), PathCollision),
        (ARCHIVED, publish(HUGE, expected=3), DocumentArchived),
        (ARCHIVED, publish(TEXT), DocumentArchived),
        (PLAIN, publish(HUGE, expected=3), ContentTooLarge),
        (Tip({}), append(), DocumentMissing),
        (ARCHIVED, append(HUGE, expected=2), VersionConflict),
        (ARCHIVED, append(HUGE), DocumentArchived),
        (PLAIN, append(b"x" * (1024 * 1024 - 4)), ContentTooLarge),
    ],
)
def test_the_earlier_reason_is_given(tip: Tip, write: Write, refusal: type[WriteRefused]) -> None:
    with pytest.raises(refusal):
        decide(write, tip, BASE)


def test_unchanged_comes_before_size_and_makes_nothing() -> None:
    decision = decide(publish(expected=3), PLAIN)
    assert (decision.outcome, decision.version, decision.changes, decision.content) == ("unchanged", 3, False, None)


@pytest.mark.parametrize("write", [publish(b"other"), publish(title="T"), publish(type="Note")])
def test_body_and_metadata_both_have_to_be_equal(write: Write) -> None:
    assert decide(write, PLAIN).version == 4


def test_nothing_equals_a_head_that_can_not_be_read() -> None:
    assert decide(publish(), UNREADABLE).outcome == "created"


@pytest.mark.parametrize(
    ("retention", "pruned"), [("1", (2, 3)), ("2", (2, 2)), ("3", None), ("4", None), ("99999999", None)]
)
def test_retention_counts_from_the_new_version_and_never_takes_it(
    retention: str, pruned: tuple[int, int] | None
) -> None:
    decision = decide(publish(retention=retention), PLAIN)
    found = decision.pruned and (decision.pruned.first, decision.pruned.last)
    assert (decision.version, found) == (4, pruned)
    if decision.pruned is not None:
        assert decision.pruned.stored == f"{decision.pruned.last:064x}"
        assert decision.after.first == decision.pruned.last + 1
