"""The three-way merge: against `git merge-file`, and the properties that keep texts from getting lost."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mark_protocol.merge import Merged, changes, merge

LABELS = ("yours", "current")
LINES = st.lists(st.sampled_from(["a", "b", "c", "", "}", "# T"]), max_size=12)
TEXTS = LINES.map(lambda lines: "\n".join(lines).encode())


def merged(base: bytes, ours: bytes, theirs: bytes) -> Merged:
    return merge(base, ours, theirs, our_label=LABELS[0], their_label=LABELS[1])


def by_git(folder: Path, base: bytes, ours: bytes, theirs: bytes) -> Merged:
    files = [folder / name for name in ("ours", "base", "theirs")]
    for file, text in zip(files, (ours, base, theirs), strict=True):
        file.write_bytes(text)
    labels = ("-L", LABELS[0], "-L", "base", "-L", LABELS[1])
    done = subprocess.run(["git", "merge-file", "-p", *labels, *files], capture_output=True, check=False)
    assert done.returncode < 128, done.stderr
    return Merged(done.stdout, done.returncode)


class Texts:
    """Random texts whose lines all differ, so that there is one shortest difference and nothing to choose."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0
        self._end = self._random.choice(["\n", "\n", "\r\n"])

    def line(self) -> str:
        self._count += 1
        return self._random.choice(["line {}", "## {}", "({}"]).format(self._count)

    def base(self) -> list[str]:
        return [self.line() for _ in range(self._random.randrange(0, 25))]

    def edited(self, lines: list[str], shared: list[str]) -> list[str]:
        made: list[str] = []
        for line in lines:
            chance = self._random.random()
            if chance < 0.1:
                made.append(self.line())
            elif chance < 0.2:
                made += [line, *self._random.sample(shared, self._random.randrange(0, 3))]
            elif chance > 0.1 + 0.8:
                continue
            else:
                made.append(line)
        if self._random.random() < 0.3:
            made.append(self.line())
        seen: dict[str, None] = dict.fromkeys(made)
        return list(seen)

    def three(self) -> tuple[bytes, bytes, bytes]:
        base = self.base()
        shared = [self.line() for _ in range(3)]
        sides = (base, self.edited(base, shared), self.edited(base, shared))
        return tuple(self._text(side) for side in sides)  # type: ignore[return-value]

    def _text(self, lines: list[str]) -> bytes:
        last = self._end if lines and self._random.random() < 0.9 else ""
        return (self._end.join(lines) + last).encode()


def test_git_merges_random_texts_alike(tmp_path: Path) -> None:
    """Byte for byte, markers, line ends and missing last line ends included."""
    conflicts = 0
    for seed in range(300):
        three = Texts(seed).three()
        expected = by_git(tmp_path, *three)
        assert merged(*three) == expected, (seed, three)
        conflicts += expected.conflicts > 0
    assert 50 < conflicts < 250, "both kinds are among the examples"


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_no_line_of_either_side_is_lost_unless_the_other_deleted_it(base: bytes, ours: bytes, theirs: bytes) -> None:
    """Texts that repeat their lines: the differences are ambiguous, what must hold is not."""
    result = merged(base, ours, theirs)
    there = set(result.text.split(b"\n"))
    for side, other in ((ours, theirs), (theirs, ours)):
        for line in set(side.split(b"\n")) - set(base.split(b"\n")):
            assert line.rstrip(b"\r") in {known.rstrip(b"\r") for known in there}, (line, other)
    assert result.text.count(b"<<<<<<< yours\n") == result.conflicts
    assert result.text.count(b">>>>>>> current\n") == result.conflicts


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS)
def test_who_changed_nothing_gets_the_others_text(base: bytes, other: bytes) -> None:
    assert merged(base, base, other) == merged(base, other, base) == merged(base, other, other) == Merged(other, 0)


@settings(max_examples=200, deadline=None)
@given(LINES, LINES)
def test_a_difference_leads_from_one_text_to_the_other(old: list[str], new: list[str]) -> None:
    made: list[str] = []
    at = 0
    for change in changes(old, new):
        assert change.start >= at
        made += [*old[at : change.start], *new[change.new_start : change.new_end]]
        at = change.end
    assert made + old[at:] == new


def test_git_agrees_on_whether_repeated_lines_conflict_nearly_always(tmp_path: Path) -> None:
    """Where lines repeat, several differences are equally short and git's choice among them is its own."""
    chance = random.Random(7)
    agreed = 0
    for _ in range(100):
        base = [chance.choice(["a", "b", "", "}", "x y"]) for _ in range(chance.randrange(4, 16))]
        sides = [[line for line in base if chance.random() > 0.1] for _ in range(2)]
        for side, word in zip(sides, ("ours", "theirs"), strict=True):
            side.insert(chance.randrange(len(side) + 1), word)
        three = tuple("".join(f"{line}\n" for line in lines).encode() for lines in (base, *sides))
        agreed += merged(*three) == by_git(tmp_path, *three)  # type: ignore[arg-type]
    assert agreed >= 90


class Counted:
    """A line that counts how often lines are compared."""

    comparisons = 0

    def __init__(self, text: str) -> None:
        self.text = text

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return isinstance(other, Counted) and self.text == other.text


@pytest.mark.parametrize("words", ["ab", [str(number) for number in range(60_000)]], ids=["two words", "many words"])
def test_the_work_on_texts_far_apart_is_bounded(words: Sequence[str]) -> None:
    chance = random.Random(1)
    old, new = ([Counted(chance.choice(words)) for _ in range(15_000)] for _ in range(2))
    Counted.comparisons = 0
    assert changes(old, new)
    assert Counted.comparisons < 5_000_000


def test_a_far_edit_in_a_long_text_is_merged() -> None:
    base = [f"line {number}\n" for number in range(5000)]
    ours = [*base[:2000], "mine\n", *(f"new {number}\n" for number in range(1500)), *base[4000:]]
    theirs = [*base[:100], "theirs\n", *base[100:]]
    three = tuple("".join(lines).encode() for lines in (base, ours, theirs))
    result = merged(*three)
    assert result.conflicts == 0
    assert result.text == "".join([*base[:100], "theirs\n", *base[100:2000], *ours[2000:]]).encode()
