"""Path patterns of credentials.

A pattern without `**` is a shell pattern over the whole path: `*` and `?` stay inside a segment, `[a-z]` and `[^a]` are
classes, a backslash takes the next character as it is. One `**` may stand for any number of segments, as `/docs/**` or
`/docs/**/notes.md`; what is before it is literal text.

Source: Mark protocol, path patterns.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

_ANY_DEPTH = "**"
_NOTHING = re.compile(r"(?!)")


class PatternError(Exception):
    """Text that is no path pattern."""


def check_pattern(pattern: str) -> None:
    """Raises PatternError, with the broken rule, for text that is no pattern."""
    _compiled(pattern)


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern permits a path. Raises PatternError."""
    return _compiled(pattern)(path)


def literal_prefix_warning(pattern: str) -> str | None:
    """Why a valid pattern permits less than its author will think, in words; None where it does not."""
    if not pattern.startswith("/"):
        return f"the pattern {pattern!r} does not begin with / and so matches no path"
    prefix, found, _ = pattern.partition(_ANY_DEPTH)
    if found and any(character in prefix for character in "*?["):
        return f"the pattern {pattern!r} has a wildcard before **, where it stands for itself only"
    return None


def may_contain(pattern: str, directory: str) -> bool:
    """Whether a path below a canonical directory may match: the directory leads to something the pattern permits."""
    below = directory if directory.endswith("/") else directory + "/"
    prefix, found, _ = pattern.partition(_ANY_DEPTH)
    if found:
        # Below the prefix every directory may hold a match, however deep; above it only those on the way do.
        return below.startswith(prefix) or prefix.startswith(below)
    return _leads_on(_pieces(pattern), below)


def _leads_on(pieces: Sequence[re.Pattern[str] | None], text: str) -> bool:
    """Whether text that begins so, and goes on, may match: every place in the pattern that it leads to is followed."""
    places = {0}
    for character in text:
        reached: set[int] = set()
        for place in _past_stars(pieces, places):
            piece = pieces[place] if place < len(pieces) else _NOTHING
            if piece is None:
                reached |= {place} if character != "/" else set()
            elif piece.fullmatch(character):
                reached.add(place + 1)
        if not reached:
            return False
        places = reached
    return min(places) < len(pieces)


def _past_stars(pieces: Sequence[re.Pattern[str] | None], places: Iterable[int]) -> set[int]:
    """Those places and the ones behind stars that may stand for nothing."""
    found = set(places)
    for place in places:
        while place < len(pieces) and pieces[place] is None:
            place += 1
            found.add(place)
    return found


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Callable[[str], bool]:
    before, found, after = pattern.partition(_ANY_DEPTH)
    if not found:
        shell = _shell(pattern)
        return lambda path: shell.fullmatch(path) is not None
    if _ANY_DEPTH in after:
        raise PatternError(f"the pattern {pattern!r} has more than one **")
    if not before.endswith("/") or (after and (not after.startswith("/") or after == "/")):
        raise PatternError(f"the pattern {pattern!r} has a ** that is not /** at its end or /**/ inside")
    if not after:
        return lambda path: path.startswith(before)
    suffix = _shell(after[1:])

    def anywhere_below(path: str) -> bool:
        if not path.startswith(before):
            return False
        start = len(before)
        while suffix.fullmatch(path, start) is None:
            start = path.find("/", start) + 1
            if not start:
                return False
        return True

    return anywhere_below


@lru_cache(maxsize=4096)
def _pieces(pattern: str) -> tuple[re.Pattern[str] | None, ...]:
    """What each character of a matching path has to be; None stands for `*`."""
    return tuple(None if source is None else re.compile(source, re.DOTALL) for source in _sources(pattern))


def _shell(pattern: str) -> re.Pattern[str]:
    """A shell pattern as a regular expression that takes the first place a piece fits and never goes back.

    Going back could cost time without bound. It could find more only where a class takes a slash, which `*` does not:
    there the Go peers do not go back either.
    """
    pieces = [""]
    for source in _sources(pattern):
        if source is None:
            pieces.append("")
        else:
            pieces[-1] += source
    first, *rest = pieces
    middle = "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1])
    return re.compile(first + middle + (f"[^/]*?{rest[-1]}" if rest else ""), re.DOTALL)


def _sources(pattern: str) -> Iterator[str | None]:
    """The regular expression of each character of a match, None for `*`."""
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == "*":
            yield None
        elif character == "?":
            yield "[^/]"
        elif character == "[":
            source, position = _class(pattern, position)
            yield source
        else:
            if character == "\\":
                character, position = _next(pattern, position)
            yield re.escape(character)


def _class(pattern: str, position: int) -> tuple[str, int]:
    """A bracket class from behind its bracket: (its regular expression, the position behind it)."""
    negated = pattern[position : position + 1] == "^"
    position += negated
    ranges: list[str] = []
    while not (ranges and pattern[position : position + 1] == "]"):
        low, position = _bound(pattern, position)
        high = low
        if pattern[position : position + 1] == "-":
            high, position = _bound(pattern, position + 1)
        # A range from high to low holds nothing, but is no error.
        ranges.append(f"{re.escape(low)}-{re.escape(high)}" if low <= high else "")
    inside = "".join(ranges)
    if not inside:
        return (r"[\s\S]" if negated else r"(?!)"), position + 1
    return f"[{'^' if negated else ''}{inside}]", position + 1


def _bound(pattern: str, position: int) -> tuple[str, int]:
    character, position = _next(pattern, position)
    if character in "-]":
        raise PatternError(f"the pattern {pattern!r} has a bracket class with {character} in a place where it needs \\")
    if character == "\\":
        character, position = _next(pattern, position)
    return character, position


def _next(pattern: str, position: int) -> tuple[str, int]:
    if position >= len(pattern):
        raise PatternError(f"the pattern {pattern!r} ends inside a bracket class or behind a backslash")
    return pattern[position], position + 1
