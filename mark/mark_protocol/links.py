"""The links of a document: inline, by reference, in angle brackets, and the relations its metadata names.

What stands in code is no link, and neither is an image. Whither a link leads is `urls.resolve`.

Source: CommonMark 0.31 section 6.3; Mark protocol 6.1 (relations).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mark_protocol.outline import plain, sections

RELATION = "rel-"
"""What the metadata keys of relations begin with."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE = re.compile(r"(?<!`)(`{1,20})(?!`)[^`]{1,2000}?(?<!`)\1(?!`)")
_BRACKETS = re.compile(r"[\[\]<>]")
_IMAGE = re.compile(r"!\[([^\[\]\n]{0,500})\]\([^()\s]{0,2000}[^()]{0,500}\)")
_INLINE = re.compile(
    r"(?<!!)\[([^\[\]]{0,2000})\]\(\s{0,9}(<[^<>\n]{0,4096}>|[^\s()<]{1,4096}(?:\([^\s()]{0,500}\)[^\s()]{0,500})?)"
    r"(?:\s{1,9}(?:\"[^\"]{0,500}\"|'[^']{0,500}'))?\s{0,9}\)"
)
_DEFINITION = re.compile(r"^ {0,3}\[([^\[\]\n]{1,999})\]:[ \t]{0,9}(<[^<>\n]{0,4096}>|\S{1,4096})[^\n]*$", re.M)
_REFERENCE = re.compile(r"(?<!!)\[([^\[\]]{1,999})\](?:\[([^\[\]]{0,999})\])?(?![(:])")
_AUTOLINK = re.compile(r"<([A-Za-z][A-Za-z0-9+.-]{1,31}:[^<>\s]{1,4096})>")


@dataclass(frozen=True, slots=True)
class Link:
    """A link: its target as it is written, its text, the anchor of the section it stands in, and its relation.

    The relation is "" for a link in the text.
    """

    target: str
    label: str = ""
    anchor: str = ""
    relation: str = ""


def links(body: bytes) -> list[Link]:
    """The links in a document's text, section by section, each as often as it stands there."""
    parts = [(section.anchor, _without_code(section.text)) for section in sections(body)]
    defined: dict[str, str] = {}
    for _, text in parts:
        for found in _DEFINITION.finditer(text):
            defined.setdefault(_key(found[1]), _target(found[2]))
    return [link for anchor, text in parts for link in _in(text, anchor, defined)]


def relations(metadata: Mapping[str, str]) -> list[Link]:
    """The links that metadata name: `rel-<predicate>: a.md, b.md`."""
    return [
        Link(target.strip(), relation=key.removeprefix(RELATION))
        for key in sorted(metadata)
        if key.startswith(RELATION) and key != RELATION
        for target in metadata[key].split(",")
        if target.strip()
    ]


def _in(text: str, anchor: str, defined: Mapping[str, str]) -> Iterator[Link]:
    text = _IMAGE.sub(lambda found: found[1], _DEFINITION.sub("", text))
    for found in _INLINE.finditer(text):
        yield Link(_target(found[2]), plain(found[1]), anchor)
    text = _INLINE.sub("", text)
    for found in _REFERENCE.finditer(text):
        target = defined.get(_key(found[2] or found[1]))
        if target is not None:
            yield Link(target, plain(found[1]), anchor)
    for found in _AUTOLINK.finditer(text):
        yield Link(found[1], found[1], anchor)


def _without_code(text: str) -> str:
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not line.strip(" \t`~"):
                fence = ""
        elif found:
            fence = found[1]
        elif not line.startswith(("    ", "\t")):
            kept.append(line)
    # A span without brackets hides no link, and may be part of a link's text.
    return _CODE.sub(lambda span: "" if _BRACKETS.search(span[0]) else span[0], "\n".join(kept))


def _target(text: str) -> str:
    return text[1:-1] if text.startswith("<") else text


def _key(label: str) -> str:
    return " ".join(label.casefold().split())
