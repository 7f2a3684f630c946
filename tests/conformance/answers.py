"""What a server says, read as the protocol has it (Mark protocol 3): by this suite alone, and strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import yaml

FENCE = b"---\n"
ESCAPED = "\\[]()*_`~#|"
NOTE = "\n*...truncated, too many entries*\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its bytes, and what they say. `lines` is the metadata as it was written, status included."""

    raw: bytes
    status: str
    meta: Mapping[str, str]
    lines: tuple[str, ...]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    @property
    def message(self) -> str:
        """What the body of an error says, its form checked."""
        title = self.status[:1].upper() + self.status[1:].replace("-", " ")
        found = re.fullmatch(rf"\n# {re.escape(title)}\n\n(.*)\n", self.text, re.DOTALL)
        assert found, f"no body of an error of status {self.status}: {self.body!r}"
        return found[1]


def block(data: bytes) -> tuple[dict[str, str], tuple[str, ...]]:
    """The entries of one fenced block, and its lines."""
    assert data.startswith(FENCE), f"no fence at the beginning: {data[:200]!r}"
    assert data.endswith(b"\n---\n"), f"no fence at the end: {data[-200:]!r}"
    inside = data[len(FENCE) : -len(FENCE)].decode()
    assert "\r" not in inside, f"a carriage return in a block: {inside!r}"
    lines = tuple(inside.rstrip("\n").split("\n"))
    entries = yaml.load(inside, Loader=yaml.BaseLoader)
    assert isinstance(entries, dict), f"no map: {inside!r}"
    assert all(isinstance(value, str) for value in entries.values()), f"a map that is not flat: {inside!r}"
    assert len(entries) == len(lines), f"not one line an entry: {inside!r}"
    return entries, lines


def parse(raw: bytes) -> Answer:
    """Reads an answer; fails the test that got one which is none."""
    assert raw, "an empty answer"
    assert raw.startswith(FENCE), f"no fence at the beginning of an answer: {raw[:200]!r}"
    end = raw.find(b"\n---\n", len(FENCE) - 1)
    assert end >= 0, f"the block of an answer is not closed: {raw[:200]!r}"
    entries, lines = block(raw[: end + 5])
    assert "status" in entries, f"an answer without a status: {raw[:200]!r}"
    status = entries.pop("status")
    return Answer(raw, status, entries, lines, raw[end + 5 :])


def unescape(text: str) -> str:
    """Generated text as it was before it was escaped for Markdown."""
    return re.sub(r"\\([\\\[\]()*_`~#|])", r"\1", text)


def escape(text: str) -> str:
    """Text as it stands in generated Markdown."""
    return "".join("\\" + character if character in ESCAPED else character for character in text)


def entries(answer: Answer, directory: str) -> list[str]:
    """The names in a listing, directories with a slash behind them; the form of the listing checked whole."""
    assert answer.status == "ok", answer
    heading = directory.rstrip("/") + "/"
    expected = f"\n# Index of {escape(heading)}\n\n"
    assert answer.text.startswith(expected), f"expected {expected!r}, got {answer.text[:200]!r}"
    rest = answer.text[len(expected) :].removesuffix(NOTE)
    names = []
    for line in rest.split("\n")[:-1]:
        found = re.fullmatch(r"- \[(.*)\]\(([^()\s]*)\)", line)
        assert found, f"no entry: {line!r}"
        assert unescape(found[1]) == unquote(found[2], errors="strict"), f"text and link differ: {line!r}"
        names.append(unescape(found[1]))
    raw_names = [name.rstrip("/").encode() for name in names]
    assert all(name and b"/" not in name for name in raw_names), f"no single segments: {names}"
    assert raw_names == sorted(set(raw_names)), f"not in ascending order of bytes, or twice: {names}"
    assert answer.meta["entries"] == str(len(names)), answer.lines
    return names


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a LOOKUP, its cells without escapes."""

    path: str
    anchor: str
    importance: str
    title: str
    tags: str
    snippet: str | None


def rows(answer: Answer, query: str, scope: str) -> list[Row]:
    """The rows of a LOOKUP; the form of the whole body checked."""
    assert answer.status == "ok", answer
    lines = answer.text.split("\n")
    assert lines[:3] == ["", f'# Lookup matches for "{escape(query)}" in {escape(scope)}', ""], lines[:3]
    width = 4
    head = ["| Path | Importance | Title | Tags |", "|------|------------|-------|------|"]
    if "Snippet" in lines[3]:
        width = 5
        head = ["| Path | Importance | Title | Tags | Snippet |", "|------|------------|-------|------|---------|"]
    assert lines[3:5] == head
    assert lines[-1] == "", f"no line feed at the end: {lines[-1]!r}"
    found = [_row(line, width) for line in lines[5:-1]]
    assert answer.meta["matches"] == str(len(found)), answer.lines
    return found


def _row(line: str, width: int) -> Row:
    cells = re.findall(r"((?:[^|\\]|\\.)*)(?:\||$)", line)
    assert (cells[0], cells[-1]) == ("", ""), f"no row: {line!r}"
    cells = cells[1:-1]
    assert len(cells) == width, f"a row with {len(cells)} cells: {line!r}"
    assert all(cell.startswith(" ") and cell.endswith(" ") for cell in cells), f"cells without blanks: {line!r}"
    cells = [cell[1:-1] for cell in cells]
    place = re.fullmatch(r"((?:[^#\\]|\\.)*)(?:#(.*))?", cells[0])
    assert place, f"no path: {line!r}"
    assert re.fullmatch(r"[01]\.[0-9]{2}", cells[1]), f"no importance: {line!r}"
    return Row(
        path=unescape(place[1]),
        anchor=place[2] or "",
        importance=cells[1],
        title=unescape(cells[2]),
        tags=unescape(cells[3]),
        snippet=unescape(cells[4]) if width == 5 else None,
    )
