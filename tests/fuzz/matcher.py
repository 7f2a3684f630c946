"""Path patterns once more, as slowly and plainly as their description reads: what the fast matcher is compared with.

Source: Mark protocol 9.2. Nothing of it is shared with what it judges.
"""

from __future__ import annotations

from collections.abc import Callable

Test = Callable[[str], bool]


class NoPattern(Exception):
    """Text that is no pattern."""


def matches(pattern: str, path: str) -> bool:
    """Whether the pattern permits the path. Raises NoPattern."""
    before, double, after = pattern.partition("**")
    if not double:
        return _whole(_tokens(pattern), path)
    if "**" in after or not before.endswith("/"):
        raise NoPattern
    if after == "":
        return path.startswith(before)
    if not after.startswith("/") or after == "/":
        raise NoPattern
    suffix = _tokens(after[1:])
    if not path.startswith(before):
        return False
    tail = path[len(before) :]
    starts = [0, *(i + 1 for i, character in enumerate(tail) if character == "/")]
    return any(_whole(suffix, tail[start:]) for start in starts)


def _whole(tokens: list[Test | None], text: str) -> bool:
    """None among the tokens is `*`. What follows one takes the first place where it fits, and never another.

    Only where a class takes a slash could another place be the better one, and there peers do not look for it either.
    """
    chunks: list[list[Test]] = [[]]
    for token in tokens:
        if token is None:
            chunks.append([])
        else:
            chunks[-1].append(token)
    at = 0
    for number, chunk in enumerate(chunks):
        last = number == len(chunks) - 1
        while not (_fits(chunk, text, at) and (not last or at + len(chunk) == len(text))):
            if number == 0 or at == len(text) or text[at] == "/":
                return False
            at += 1
        at += len(chunk)
    return True


def _fits(chunk: list[Test], text: str, at: int) -> bool:
    return at + len(chunk) <= len(text) and all(test(text[at + i]) for i, test in enumerate(chunk))


def _tokens(pattern: str) -> list[Test | None]:
    tokens: list[Test | None] = []
    left = list(pattern)
    while left:
        character = left.pop(0)
        if character == "*":
            tokens.append(None)
        elif character == "?":
            tokens.append(lambda c: c != "/")
        elif character == "[":
            tokens.append(_class(left))
        else:
            tokens.append(_is(_escaped(character, left)))
    return tokens


def _is(wanted: str) -> Test:
    return lambda c: c == wanted


def _class(left: list[str]) -> Test:
    negated = bool(left) and left[0] == "^"
    if negated:
        left.pop(0)
    ranges: list[tuple[str, str]] = []
    while not (ranges and left and left[0] == "]"):
        low = high = _bound(left)
        if left and left[0] == "-":
            left.pop(0)
            high = _bound(left)
        ranges.append((low, high))
    left.pop(0)
    return lambda c: any(low <= c <= high for low, high in ranges) != negated


def _bound(left: list[str]) -> str:
    if not left or left[0] in "-]":
        raise NoPattern
    return _escaped(left.pop(0), left)


def _escaped(character: str, left: list[str]) -> str:
    if character != "\\":
        return character
    if not left:
        raise NoPattern
    return left.pop(0)
