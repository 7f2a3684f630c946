"""The outline of a document: its title, headings, anchors and sections.

Headings are those of the document itself (CommonMark, ATX and setext), not what stands in code, HTML, quotes or lists.

Source: Mark protocol 8.1 (title), 8.4 (sections, anchors); CommonMark 0.31 section 4.
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_ENDS = re.compile(r"\r\n|\n|\r")
_ATX = re.compile(r"(#{1,6})(?:[ \t]+(.*))?$")
_CLOSING = re.compile(r"(?:^|[ \t])#+[ \t]*$")
_SETEXT = re.compile(r"(=+|-+)[ \t]*$")
_BREAK = re.compile(r"(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_FENCE = re.compile(r"(`{3,}|~{3,})(.*)$")
_MARKER = re.compile(r"([-+*]|[0-9]{1,9}[.)])([ \t]+|$)")
_HTML_BEGINS = (
    (
        re.compile(r"<(?:script|pre|style|textarea)(?:[ \t>]|$)", re.I),
        re.compile(r"</(?:script|pre|style|textarea)>", re.I),
    ),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<\?"), re.compile(r"\?>")),
    (re.compile(r"<!\[CDATA\["), re.compile(r"\]\]>")),
    (re.compile(r"<![a-zA-Z]"), re.compile(r">")),
)  # fmt: skip
_BLOCK_TAG = re.compile(
    r"</?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl"
    r"|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main"
    r"|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title"
    r"|tr|track|ul)(?:[ \t]|/?>|$)",
    re.I,
)
_LONE_TAG = re.compile(
    r"(?:<[a-zA-Z][a-zA-Z0-9-]*(?:[ \t]+[a-zA-Z_:][\w.:-]*(?:[ \t]*=[ \t]*(?:[^ \t\"'=<>`]+|'[^']*'|\"[^\"]*\"))?)*"
    r"[ \t]*/?>|</[a-zA-Z][a-zA-Z0-9-]*[ \t]*>)[ \t]*$"
)

# Spans of markup have an end to what they hold: where the second half never comes, the search for it would cost the
# square of a line's length.
_CODE = re.compile(r"(?<!`)(`{1,20})(?!`)(.{1,2000}?)(?<!`)\1(?!`)", re.S)
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)")
_AUTOLINK = re.compile(r"<([a-zA-Z][a-zA-Z0-9+.-]+:[^<>\s]*|[\w.+-]+@[\w.-]+)>")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<!--.{0,500}?-->", re.S)
_STAR = re.compile(r"(\*{1,3})(?=[^\s*])(.{1,200}?)(?<=[^\s*])\1", re.S)
_UNDERSCORE = re.compile(r"(?<!\w)(_{1,3})(?=[^\s_])(.{1,200}?)(?<=[^\s_])\1(?!\w)", re.S)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
# Characters that stand for text which is finished, and are looked up in the end.
_PRIVATE, _PRIVATE_END = 0xF0000, 0xFFFFD
_STANDS_FOR = re.compile(f"([{chr(_PRIVATE)}-{chr(_PRIVATE_END)}])")
_DEEPEST = 20
"""Markers of lists that are looked for on one line."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: its level (1 to 6), its text without markup, the lines [start, end) it stands on."""

    level: int
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the text up to the next one. `trail` are the texts of its ancestors and its own.

    The text before the first heading is a section without anchor, heading and trail.
    """

    anchor: str
    heading: str
    trail: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of an outline: a heading, its anchor, and how many lines it and all below it have."""

    level: int
    text: str
    anchor: str
    lines: int


def first_title(body: bytes) -> str:
    """The text of the first level-1 ATX heading outside code, or ""."""
    fence = ""
    for line in body.decode(errors="replace").splitlines():
        indent, content = _measured(line)
        if indent > 3:
            continue
        found = _FENCE.match(content)
        if fence:
            fence = "" if found and _closes(found, fence) else fence
        elif found and _opens(found):
            fence = found[1]
        elif (heading := _ATX.match(content)) and len(heading[1]) == 1:
            text = plain(_CLOSING.sub("", heading[2] or ""))
            if text:
                return text
    return ""


def sections(body: bytes) -> list[Section]:
    """The sections of a document, in order."""
    lines = _LINE_ENDS.split(body.decode(errors="replace"))
    found = list(_headings(lines))
    lead = "\n".join(lines[: found[0].start] if found else lines)
    made = [Section("", "", (), lead)] if lead.strip() else []
    taken: dict[str, int] = {}
    above: list[Heading] = []
    for number, heading in enumerate(found):
        above = [*(other for other in above if other.level < heading.level), heading]
        end = found[number + 1].start if number + 1 < len(found) else len(lines)
        made.append(
            Section(
                _free_anchor(heading.text, taken),
                heading.text,
                tuple(other.text for other in above),
                "\n".join(lines[heading.start : end]),
            )
        )
    return made


def headings(body: bytes) -> list[Heading]:
    """The headings of a document that are not empty."""
    return list(_headings(_LINE_ENDS.split(body.decode(errors="replace"))))


def entries(body: bytes) -> list[Entry]:
    """The outline of a document: a row for each heading, with its anchor and the size of its section."""
    lines = _LINE_ENDS.split(body.decode(errors="replace"))
    last = len(lines) - (not lines[-1])
    found = list(_headings(lines))
    taken: dict[str, int] = {}
    rows: list[Entry] = []
    open_rows: list[int] = []
    ends = [last] * len(found)
    for number, heading in enumerate(found):
        while open_rows and found[open_rows[-1]].level >= heading.level:
            ends[open_rows.pop()] = heading.start
        open_rows.append(number)
    for heading, end in zip(found, ends, strict=True):
        rows.append(Entry(heading.level, heading.text, _free_anchor(heading.text, taken), end - heading.start))
    return rows


def cut(body: bytes, anchor: str) -> bytes | None:
    """A section with all below it: from its heading to the next one that is not deeper; None if there is no such.

    It is named by its anchor, or by the text of its heading.
    """
    text = body.decode(errors="surrogateescape")
    found = list(_headings(_LINE_ENDS.split(text)))
    taken: dict[str, int] = {}
    anchors = [_free_anchor(heading.text, taken) for heading in found]
    names = anchors if anchor in anchors else [heading.text for heading in found]
    if anchor not in names:
        return None
    number = names.index(anchor)
    rest = found[number + 1 :]
    end = next((later.start for later in rest if later.level <= found[number].level), None)
    starts = [0, *(ending.end() for ending in _LINE_ENDS.finditer(text)), len(text)]
    return text[starts[found[number].start] : None if end is None else starts[end]].encode(errors="surrogateescape")


def anchor(text: str) -> str:
    """What a heading's text is called in a URL, before duplicates are told apart."""
    kept = []
    for character in text.lower():
        if character in "_-" or unicodedata.category(character)[0] in "LN":
            kept.append(character)
        elif character.isspace():
            kept.append("-")
    return "".join(kept)


def plain(text: str) -> str:
    """Inline text without its markup: what a reader sees of emphasis, code, links, images, tags and entities."""
    kept: list[str] = []

    def stand_in(seen: str) -> str:
        if _PRIVATE + len(kept) > _PRIVATE_END:
            return ""  # nobody reads that far
        kept.append(seen)
        return chr(_PRIVATE + len(kept) - 1)

    def keep(seen: str) -> str:
        return stand_in(_STANDS_FOR.sub(lambda found: kept[ord(found[0]) - _PRIVATE], seen))

    text = _STANDS_FOR.sub(lambda found: stand_in(found[0]), text)
    text = _CODE.sub(lambda found: keep(_code_text(found[2])), text)
    text = _ESCAPE.sub(lambda found: keep(found[1]), text)
    text = _AUTOLINK.sub(lambda found: keep(found[1]), text)
    text = _TAG.sub("", text)
    # Twice, because one may stand in the other.
    for pattern, seen in ((_LINK, r"\1"), (_STAR, r"\2"), (_UNDERSCORE, r"\2")) * 2:
        text = pattern.sub(seen, text)
    parts = enumerate(_STANDS_FOR.split(text))
    text = "".join(kept[ord(part) - _PRIVATE] if number % 2 else html.unescape(part) for number, part in parts)
    return " ".join(text.split())


def _code_text(text: str) -> str:
    text = text.replace("\n", " ")
    return text[1:-1] if text.strip() and text[0] == text[-1] == " " else text


def _free_anchor(text: str, taken: dict[str, int]) -> str:
    """An anchor that none before has; `taken` are those, each with the last number that was put behind it."""
    base = name = anchor(text)
    number = taken.get(base, 0)
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    taken[base] = number
    taken.setdefault(name, 0)
    return name


def _headings(lines: list[str]) -> Iterator[Heading]:
    scanner = _Scanner()
    for number, line in enumerate(lines):
        found = scanner.take(number, line)
        if found is not None and found.text:
            yield found


class _Scanner:
    """Reads a document line by line, as far as headings depend on it."""

    def __init__(self) -> None:
        self._fence = ""
        self._html_ends: re.Pattern[str] | None = None
        # Where the text of a list's item begins; whether a paragraph, or code, is open in a list or a quote.
        self._item: int | None = None
        self._lazy = False
        self._item_fence = ""
        self._paragraph: list[str] = []
        self._began = 0

    def take(self, number: int, line: str) -> Heading | None:
        """The heading that ends with this line, if one does."""
        indent, content = _measured(line)
        if self._fence:
            found = _FENCE.match(content)
            if indent <= 3 and found and _closes(found, self._fence):
                self._fence = ""
            return None
        if self._html_ends is not None:
            if self._html_ends.search(line):
                self._html_ends = None
            return None
        if self._in_container(indent, content):
            return None
        if not content:
            self._paragraph = []
            return None
        if indent > 3:
            if self._paragraph:
                self._paragraph.append(content)
            return None
        return self._block(number, content)

    def _in_container(self, indent: int, content: str) -> bool:
        """Whether the line belongs to a list or a quote that is open."""
        if self._item is not None:
            if not content:
                self._lazy = False
                return True
            if indent >= self._item:
                self._inside(content)
                return True
            if indent <= 3 and (marker := _MARKER.match(content)) and not _BREAK.match(content):
                self._open_item(indent, marker, content)
                return True
        if self._lazy and content and (indent > 3 or not _starts_block(content)):
            return True
        self._item, self._lazy, self._item_fence = None, False, ""
        return False

    def _open_item(self, indent: int, marker: re.Match[str], content: str) -> None:
        rest = content[marker.end() :]
        space = len(marker[2].expandtabs(4))
        self._item = indent + len(marker[1]) + (space if rest and space <= 4 else 1)
        self._item_fence = ""
        self._lazy = False
        self._inside(rest)

    def _inside(self, content: str) -> None:
        """Take a line of an item or a quote, without its marker."""
        content = content.lstrip(" \t")
        for _ in range(_DEEPEST):
            marker = _MARKER.match(content)
            if not marker or not marker[2] or self._item_fence or _BREAK.match(content):
                break
            content = content[marker.end() :]
        found = _FENCE.match(content)
        if self._item_fence:
            if found and _closes(found, self._item_fence):
                self._item_fence = ""
            self._lazy = False
        elif found and _opens(found):
            self._item_fence, self._lazy = found[1], False
        else:
            self._lazy = bool(content) and not _ATX.match(content) and not _BREAK.match(content)

    def _block(self, number: int, content: str) -> Heading | None:
        paragraph, self._paragraph = self._paragraph, []
        if heading := _ATX.match(content):
            return Heading(len(heading[1]), plain(_CLOSING.sub("", heading[2] or "")), number, number + 1)
        if paragraph and (under := _SETEXT.match(content)):
            return Heading(1 if under[1][0] == "=" else 2, plain("\n".join(paragraph)), self._began, number + 1)
        if _BREAK.match(content):
            return None
        found = _FENCE.match(content)
        if found and _opens(found):
            self._fence = found[1]
        elif content.startswith(">"):
            self._quote(content)
        elif self._opens_html(content, interrupting=bool(paragraph)):
            pass
        elif (marker := _MARKER.match(content)) and not (paragraph and _can_not_interrupt(marker, content)):
            self._open_item(0, marker, content)
        else:
            self._began = self._began if paragraph else number
            paragraph.append(content)
            self._paragraph = paragraph
        return None

    def _quote(self, content: str) -> None:
        inner = content.lstrip("> \t")
        self._item_fence = ""
        self._inside(inner)
        self._item_fence = ""

    def _opens_html(self, content: str, *, interrupting: bool) -> bool:
        for begins, ends in _HTML_BEGINS:
            if found := begins.match(content):
                if not ends.search(content, found.end() - 1 if ends.pattern == ">" else found.end()):
                    self._html_ends = ends
                return True
        if _BLOCK_TAG.match(content) or (not interrupting and _LONE_TAG.match(content)):
            self._html_ends = _BLANK_LINE
            return True
        return False


_BLANK_LINE = re.compile(r"^[ \t]*$")


def _measured(line: str) -> tuple[int, str]:
    """The columns of white space before a line's text (tabs stop at every fourth), and the text."""
    content = line.lstrip(" \t")
    column = 0
    for character in line[: len(line) - len(content)]:
        column += 4 - column % 4 if character == "\t" else 1
    return column, content.rstrip(" \t") if not content.strip(" \t") else content


def _opens(fence: re.Match[str]) -> bool:
    return fence[1][0] == "~" or "`" not in fence[2]


def _closes(fence: re.Match[str], opening: str) -> bool:
    return fence[1].startswith(opening) and not fence[2].strip(" \t")


def _can_not_interrupt(marker: re.Match[str], content: str) -> bool:
    """Whether a list that begins so can't end a paragraph."""
    return not content[marker.end() :].strip() or marker[1] not in ("-", "+", "*", "1.", "1)")


def _starts_block(content: str) -> bool:
    """Whether a line begins something that no open paragraph goes on with."""
    found = _FENCE.match(content)
    marker = _MARKER.match(content)
    return bool(
        _ATX.match(content)
        or _BREAK.match(content)
        or (found and _opens(found))
        or content.startswith(">")
        or _BLOCK_TAG.match(content)
        or any(begins.match(content) for begins, _ in _HTML_BEGINS)
        or (marker and not _can_not_interrupt(marker, content))
    )
