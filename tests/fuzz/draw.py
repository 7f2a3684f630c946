"""Values out of the bytes that a fuzzer gives: the same bytes, the same values; too few of them, and the rest is empty.

What is drawn is made of pieces that mean something to the parsers, as often as of anything at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def must(holds: bool, *told: object) -> None:
    """What a target says where an `assert` would hide that it is inside the handling of an error."""
    if not holds:
        raise AssertionError(*told)


PIECES = (
    "a", "b", "v1", "0", "9", " ", "  ", "\t", "\n", "\r", "/", "//", ".", "..", "-", "---", "---\n", ":",
    ": ", "#", " #", "*", "**", "/**", "/**/", "?", "[", "]", "[^", "[a-c]", "\\", "{", "}", ",", ", ", "&",
    "!", "|", ">", "'", '"', "%", "%25", "%2F", "%zz", "@", "`", "~", "null", "true", "y", "on", "1e3", "0x1F",
    "2026-01-01", "12:30", "<<", "=", "+", "_", "sha256-", "versions", ".md", "index.md", "\x00", "\x07",
    "\x1b", "\x7f", "\x85", "\xa0", "é", "İ", "ß", "\u2028", "\u2029", "\ufeff", "\ufffe", "🍵", "\U000f0000",
    "\udc80", "\udcff", "-1", "+1", "18446744073709551616",
)  # fmt: skip


class Draw:
    """Takes values from bytes, front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        """0 to 255; 0 when nothing is left."""
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def below(self, bound: int) -> int:
        """0 to `bound` - 1."""
        wide = self.byte() | self.byte() << 8 if bound > 256 else self.byte()
        return wide % bound

    def one_of(self, choices: Sequence[T]) -> T:
        """One of them."""
        return choices[self.below(len(choices))]

    def flag(self) -> bool:
        """One bit."""
        return bool(self.byte() & 1)

    def raw(self, most: int = 64) -> bytes:
        """Bytes as they are."""
        size = self.below(most + 1)
        self._at += size
        return self._data[self._at - size : self._at]

    def rest(self) -> bytes:
        """All that is left."""
        taken, self._at = self._data[self._at :], len(self._data)
        return taken

    def text(self, most: int = 8, *, pieces: Sequence[str] = PIECES) -> str:
        """Text of up to `most` pieces; bytes that are no UTF-8 are in it as surrogate escapes."""
        parts = []
        for _ in range(self.below(most + 1)):
            kind = self.byte()
            parts.append(self.raw(12).decode(errors="surrogateescape") if kind >= 0xE0 else pieces[kind % len(pieces)])
        # Escapes side by side may be UTF-8 together, and then it is that which everybody reads.
        return "".join(parts).encode(errors="surrogateescape").decode(errors="surrogateescape")

    def unicode(self, most: int = 8, *, pieces: Sequence[str] = PIECES) -> str:
        """The same without surrogates."""
        return self.text(most, pieces=pieces).encode(errors="replace").decode()

    def line(self, most: int = 8) -> str:
        """Unicode text without line ends."""
        return self.unicode(most).replace("\n", "").replace("\r", "")

    def pairs(self, most: int = 6) -> dict[str, str]:
        """Keys with texts."""
        return {self.text(3): self.text() for _ in range(self.below(most + 1))}
