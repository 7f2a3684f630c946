"""Three-way merge of texts by lines: what two people made of one text, put together, with markers where they disagree.

A change that only one side made is taken, a change that both made alike is taken once, and where both changed the same
or touching lines both texts stay, between conflict markers. Disagreements are narrowed to the lines that differ, and
joined again where fewer than four lines, or none with a letter or digit, would stand between two of them.

The work is bounded: where two texts are too far apart for a shortest difference, lines that occur once in each are the
fixed points, and what lies between those counts as replaced.

Source: `git merge-file` (git 2.39), its output byte for byte where the differences are unambiguous; E. Myers, "An
O(ND) difference algorithm and its variations" (1986).
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

_MARKER = 7
_ALWAYS_JOINED = 3
"""Lines between two disagreements that do not keep them apart."""
_LONGEST_SCRIPT = 1000
"""Lines deleted and inserted up to which a shortest difference is looked for."""
_STEPS = 1_000_000
"""Comparisons of lines that one search for a shortest difference may make."""
_LF, _CR_LF = b"\n", b"\r\n"
_WORD = re.compile(rb"[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged text, and how many disagreements stand in it between markers."""

    text: bytes
    conflicts: int


@dataclass(frozen=True, slots=True)
class Change:
    """Lines [start, end) of one text are lines [new_start, new_end) of another."""

    start: int
    end: int
    new_start: int
    new_end: int


@dataclass(frozen=True, slots=True)
class _Region:
    """Lines of both sides that stand for one another. `conflict`: nobody but a reader can say which are right."""

    ours: tuple[int, int]
    theirs: tuple[int, int]
    take_theirs: bool = False
    conflict: bool = False


def merge(base: bytes, ours: bytes, theirs: bytes, *, our_label: str, their_label: str) -> Merged:
    """Merge two texts that come from one. The labels are put behind the markers, as `git merge-file -L` does."""
    first, left, right = _lines(base), _lines(ours), _lines(theirs)
    our_changes, their_changes = changes(first, left), changes(first, right)
    if not our_changes:
        return Merged(theirs, 0)
    if not their_changes:
        return Merged(ours, 0)
    regions = _joined(_narrowed(_regions(our_changes, their_changes, left, right), left, right), left)
    return _render(regions, first, left, right, our_label.encode(), their_label.encode())


def changes(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Change]:
    """How one sequence becomes another, by few deletions and insertions; in order, none touching the next."""
    begin = 0
    shortest = min(len(old), len(new))
    while begin < shortest and old[begin] == new[begin]:
        begin += 1
    kept = 0
    while kept < shortest - begin and old[-1 - kept] == new[-1 - kept]:
        kept += 1
    old_end, new_end = len(old) - kept, len(new) - kept
    pairs = _pairs(old[begin:old_end], new[begin:new_end])
    found: list[Change] = []
    at, new_at = begin, begin
    for left, right in (*((begin + x, begin + y) for x, y in pairs), (old_end, new_end)):
        if left > at or right > new_at:
            found.append(Change(at, left, new_at, right))
        at, new_at = left + 1, right + 1
    return _slid(found, old, new)


def _lines(text: bytes) -> list[bytes]:
    *lines, last = text.split(_LF)
    return [line + _LF for line in lines] + ([last] if last else [])


def _pairs(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Positions of lines that stay, in order."""
    if not old or not new:
        return []
    found = _shortest(old, new)
    if found is not None:
        return found
    pairs: list[tuple[int, int]] = []
    at, new_at = 0, 0
    for left, right in (*_fixed_points(old, new), (len(old), len(new))):
        share = _STEPS * (left - at + right - new_at) // (len(old) + len(new))
        between = _shortest(old[at:left], new[new_at:right], longest=_LONGEST_SCRIPT // 10, steps=share) or ()
        pairs += [(at + x, new_at + y) for x, y in between]
        if left < len(old):
            pairs.append((left, right))
        at, new_at = left + 1, right + 1
    return pairs


def _shortest(
    old: Sequence[Hashable], new: Sequence[Hashable], *, longest: int = _LONGEST_SCRIPT, steps: int = _STEPS
) -> list[tuple[int, int]] | None:
    """Positions of lines that stay in a shortest difference; None if there is none within the bounds.

    For each number of edits, how far in `old` one gets on each diagonal (position in old - position in new).
    """
    size, new_size = len(old), len(new)
    if abs(size - new_size) > longest:
        return None
    furthest = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(min(longest, size + new_size) + 1):
        reached: dict[int, int] = {}
        for diagonal in range(-edits, edits + 1, 2):
            down = furthest.get(diagonal + 1, -1)
            across = furthest.get(diagonal - 1, -2) + 1
            x = max(down, across)
            y = x - diagonal
            if x < 0 or x > size or y > new_size:
                continue
            start = x
            while x < size and y < new_size and old[x] == new[y]:
                x += 1
                y += 1
            steps -= x - start + 1
            reached[diagonal] = x
            if x == size and y == new_size:
                return _walk_back(history, reached, diagonal)
        if steps < 0:
            return None
        history.append(reached)
        furthest = reached
    return None


def _walk_back(history: list[dict[int, int]], last: dict[int, int], diagonal: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    x = last[diagonal]
    for reached in reversed(history):
        down, across = reached.get(diagonal + 1, -1), reached.get(diagonal - 1, -2) + 1
        start = max(down, across)
        pairs += [(k, k - diagonal) for k in range(x - 1, start - 1, -1)]
        diagonal, x = (diagonal + 1, down) if down >= across else (diagonal - 1, across - 1)
    pairs += [(k, k) for k in range(x - 1, -1, -1)]
    return pairs[::-1]


def _fixed_points(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Lines that occur once in each, as many of them as are in the same order in both."""
    once = {line for line, count in Counter(old).items() if count == 1}
    once &= {line for line, count in Counter(new).items() if count == 1}
    places = {line: number for number, line in enumerate(new) if line in once}
    pairs = [(number, places[line]) for number, line in enumerate(old) if line in once]
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(tails, place)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [place]
        ends[length : length + 1] = [index]
    chain: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


def _slid(found: list[Change], old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Change]:
    """The changes with each mere insertion or deletion moved as far down as it means the same; those that meet join."""
    done: list[Change] = []
    for change in reversed(found):
        limit = done[-1].start if done else len(old)
        new_limit = done[-1].new_start if done else len(new)
        start, end, new_start, new_end = change.start, change.end, change.new_start, change.new_end
        if start == end or new_start == new_end:
            text, first, after = (new, new_start, new_end) if start == end else (old, start, end)
            room = min(limit - end, new_limit - new_end)
            moved = 0
            while moved < room and text[first + moved] == text[after + moved]:
                moved += 1
            start, end, new_start, new_end = start + moved, end + moved, new_start + moved, new_end + moved
        if done and end == limit and new_end == new_limit:
            below = done.pop()
            end, new_end = below.end, below.new_end
        done.append(Change(start, end, new_start, new_end))
    return done[::-1]


def _regions(
    ours: Sequence[Change], theirs: Sequence[Change], left: Sequence[bytes], right: Sequence[bytes]
) -> list[_Region]:
    """What only one side changed, and where both did; a change made alike by both is left out."""
    regions: list[_Region] = []
    i = j = 0
    shift, their_shift = 0, 0  # of lines of base to lines of each side
    while i < len(ours) or j < len(theirs):
        mine = ours[i] if i < len(ours) else None
        other = theirs[j] if j < len(theirs) else None
        if mine and (other is None or mine.end < other.start):
            span = (mine.start + their_shift, mine.end + their_shift)
            regions.append(_Region((mine.new_start, mine.new_end), span))
            i, shift = i + 1, mine.new_end - mine.end
            continue
        if other and (mine is None or other.end < mine.start):
            span = (other.start + shift, other.end + shift)
            regions.append(_Region(span, (other.new_start, other.new_end), take_theirs=True))
            j, their_shift = j + 1, other.new_end - other.end
            continue
        assert mine
        assert other
        start, end = min(mine.start, other.start), max(mine.end, other.end)
        our_start, their_start = start + shift, start + their_shift
        first = i, j
        while True:
            if i < len(ours) and ours[i].start <= end:
                end, shift, i = max(end, ours[i].end), ours[i].new_end - ours[i].end, i + 1
            elif j < len(theirs) and theirs[j].start <= end:
                end, their_shift, j = max(end, theirs[j].end), theirs[j].new_end - theirs[j].end, j + 1
            else:
                break
        our_span, their_span = (our_start, end + shift), (their_start, end + their_shift)
        alike = (i, j) == (first[0] + 1, first[1] + 1) and (mine.start, mine.end) == (other.start, other.end)
        if not (alike and left[slice(*our_span)] == right[slice(*their_span)]):
            regions.append(_Region(our_span, their_span, conflict=True))
    return regions


def _narrowed(regions: list[_Region], left: Sequence[bytes], right: Sequence[bytes]) -> list[_Region]:
    """The regions with each disagreement reduced to the lines that differ."""
    narrowed: list[_Region] = []
    for region in regions:
        ours, theirs = left[slice(*region.ours)], right[slice(*region.theirs)]
        if not (region.conflict and ours and theirs):
            narrowed.append(region)
        elif found := changes(ours, theirs):
            (at, _), (their_at, _) = region.ours, region.theirs
            narrowed += [
                _Region((at + c.start, at + c.end), (their_at + c.new_start, their_at + c.new_end), conflict=True)
                for c in found
            ]
        else:
            narrowed.append(_Region(region.ours, region.theirs))
    return narrowed


def _joined(regions: list[_Region], left: Sequence[bytes]) -> list[_Region]:
    """The regions with disagreements joined that hardly anything keeps apart."""
    joined: list[_Region] = []
    for region in regions:
        last = joined[-1] if joined else None
        if last and last.conflict and region.conflict:
            between = left[last.ours[1] : region.ours[0]]
            if len(between) <= _ALWAYS_JOINED or not any(map(_WORD.search, between)):
                ours, theirs = (last.ours[0], region.ours[1]), (last.theirs[0], region.theirs[1])
                joined[-1] = _Region(ours, theirs, conflict=True)
                continue
        joined.append(region)
    return joined


def _render(
    regions: Sequence[_Region],
    base: Sequence[bytes],
    left: Sequence[bytes],
    right: Sequence[bytes],
    our_label: bytes,
    their_label: bytes,
) -> Merged:
    parts: list[bytes] = []
    at = conflicts = 0
    for region in regions:
        parts += left[at : region.ours[0]]
        at = region.ours[1]
        if region.conflict:
            conflicts += 1
            end = _line_end(region, base, left, right)
            parts += [_marker(b"<", our_label, end), *_ended(left[slice(*region.ours)], end), _marker(b"=", b"", end)]
            parts += [*_ended(right[slice(*region.theirs)], end), _marker(b">", their_label, end)]
        else:
            parts += right[slice(*region.theirs)] if region.take_theirs else left[slice(*region.ours)]
    return Merged(b"".join([*parts, *left[at:]]), conflicts)


def _marker(character: bytes, label: bytes, end: bytes) -> bytes:
    return character * _MARKER + (b" " + label if label else b"") + end


def _ended(lines: Sequence[bytes], end: bytes) -> Sequence[bytes]:
    """The lines, the last one ended if it is not."""
    return [*lines[:-1], lines[-1] + end] if lines and not lines[-1].endswith(_LF) else lines


def _line_end(region: _Region, base: Sequence[bytes], left: Sequence[bytes], right: Sequence[bytes]) -> bytes:
    """CR LF where the base's first line has it, and no side says otherwise at the line before; else LF."""
    ends = (_line_end_of(left, max(0, region.ours[0] - 1)), _line_end_of(right, max(0, region.theirs[0] - 1)))
    return _LF if _LF in ends else _line_end_of(base, 0) or _LF


def _line_end_of(lines: Sequence[bytes], number: int) -> bytes:
    """How a line ends; the last one, where it has no end, as the one before; nothing if that can't be told."""
    for line in lines[number::-1] if number < len(lines) else ():
        if line.endswith(_LF):
            return _CR_LF if line.endswith(_CR_LF) else _LF
    return b""
