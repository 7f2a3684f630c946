"""Path patterns of credentials.

A pattern without `**` is a shell pattern over the whole path: `*` and `?` stay inside a segment, `[a-z]` and `[^a]` are
classes, a backslash takes the next character as it is. One `**` may stand for any number of segments, as `/docs/**` or
`/docs/**/notes.md`; what is before it is literal text.

Source: Mark protocol, path patterns.
"""

import re
from collections.abc import Callable
from functools import lru_cache

_ANY_DEPTH = "**"


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
    segments = _segments(pattern)
    depth = below.count("/")
    return len(segments) > depth and _compiled("/".join(segments[:depth]) + "/")(below)


def _segments(pattern: str) -> list[str]:
    """A pattern cut at the slashes that separate: not those in a class or behind a backslash."""
    return re.findall(r"((?:\\.|\[\^?(?:\\.|[^\]\\])*\]|[^/\\\[])*)(?:/|\Z)", pattern + "/", re.DOTALL)[:-1]


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


def _shell(pattern: str) -> re.Pattern[str]:
    """A shell pattern as a regular expression that takes the first place a piece fits and never goes back.

    Going back could not find more, since `*` stays inside a segment, but could cost time without bound.
    """
    pieces = [""]
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "[^/]"
        elif character == "[":
            source, position = _class(pattern, position)
            pieces[-1] += source
        else:
            if character == "\\":
                character, position = _next(pattern, position)
            pieces[-1] += re.escape(character)
    first, *rest = pieces
    middle = "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1])
    return re.compile(first + middle + (f"[^/]*?{rest[-1]}" if rest else ""), re.DOTALL)


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
