"""Words of text and of queries (Mark protocol 8.4), and the form in which the index holds them."""

import re
from collections.abc import Iterable, Iterator

LEAST_CHARACTERS = 2
MOST_BYTES = 32

_RUN = re.compile(r"\w+")
_EDGES = re.compile(r"^\W+|\W+$")
# The index takes everything that is not ASCII for a part of a word: punctuation inside one is put there.
_HELD = {code: 0xE000 + code for code in range(128) if not chr(code).isalnum()}


def terms(query: str) -> list[str]:
    """The distinct words that a match must have; none = nothing matches."""
    found: dict[str, None] = {}
    for word in query.split():
        word = _EDGES.sub("", word).lower()
        for part in [word] if len(word.encode(errors="replace")) <= MOST_BYTES else _RUN.findall(word):
            if len(part) >= LEAST_CHARACTERS:
                found[part] = None
    return list(found)


def words(text: str) -> Iterator[str]:
    """The words of a text, a word and its parts both."""
    for word in text.split():
        word = _EDGES.sub("", word).lower()
        runs = _RUN.findall(word)
        for part in runs if runs == [word] else [word, *runs]:
            if len(part) >= LEAST_CHARACTERS and len(part.encode(errors="replace")) <= MOST_BYTES:
                yield part


def held(text: str) -> str:
    """The words of a text as the index is given them."""
    known: dict[str, str] = {}  # a long text has the same words over and over
    found: list[str] = []
    for word in text.split():
        form = known.get(word)
        if form is None:
            form = known[word] = " ".join(part.translate(_HELD) for part in words(word))
        if form:
            found.append(form)
    return " ".join(found)


def wanted(found: Iterable[str]) -> str:
    """The expression for rows of the index that have every one of these words."""
    return " AND ".join(f'"{word.translate(_HELD)}"' for word in found)
