"""Publisher metadata, stored versions, generated bodies, and the outline and links of what people write."""

from __future__ import annotations

from mark_protocol import metadata
from mark_protocol.graphs import Edge, Node, render_graph
from mark_protocol.links import links, relations
from mark_protocol.listings import (
    Child,
    ListingError,
    VersionLine,
    parse_list,
    parse_versions,
    render_list,
    render_versions,
)
from mark_protocol.lookups import Match, parse_matches, render_matches
from mark_protocol.metadata import MetadataError
from mark_protocol.outline import cut, first_title, headings, plain, sections
from mark_protocol.rebuild import rebuilt
from mark_protocol.versions import VersionError, check_header, encode_version, etag, parse_version
from tests.fuzz.draw import Draw, must

KEYS = (
    "type", "title", "tags", "importance", "retention", "agent", "rel-see", "version", "auth", "etag", "meta",
    "x-1", "archived", "previous-hash", "A", "",
)  # fmt: skip
MARKDOWN = (
    "# ", "## ", "#", "\n", "\n\n", "a", "b ", "*", "**", "_", "`", "```", "~~~", "[a]", "(b.md)", "[", "]",
    "](", ")", "<", ">", "<!--", "-->", "<div>", "    ", "\t", "- ", "1. ", "---", "===", "\\", "&amp;", "![",
    "[a]: b\n", "<http://a.b>", "\U000f0000", "\udcff", "\r\n",
)  # fmt: skip


def publisher_metadata(data: bytes) -> None:
    """What may be stored is stored and read back, is well-formed, and can be rebuilt from what FETCH tells of it."""
    draw = Draw(data)
    sent = {draw.one_of(KEYS) or draw.text(2): draw.text() for _ in range(draw.below(6))}
    try:
        kept = metadata.publisher_metadata(sent)
        assert metadata.publisher_metadata(kept) == kept
        kept = metadata.with_default_type("/" + draw.unicode(2), kept)
        if draw.flag():
            kept = metadata.merge_for_append(kept, metadata.publisher_metadata({"tags": draw.text(3)}))
        metadata.check_store_rules(kept)
    except MetadataError as error:
        must("\n" not in error.message, error.message)
        return
    number = draw.below(3) + 1
    previous = None if number == 1 else "0a" * 32
    body = draw.rest()
    stored = encode_version(number, previous, kept, body)
    check_header(stored, number)
    version = parse_version(stored)
    assert (version.number, version.previous, dict(version.metadata), version.body) == (number, previous, kept, body)
    told = metadata.returned_metadata(kept)
    assert told.items() <= kept.items()
    assert rebuilt(etag(stored), number, previous, told, body) == stored


def stored_versions(data: bytes) -> None:
    """Any bytes are a stored version or a VersionError, and what is strictly well-formed is read at all."""
    try:
        version = parse_version(data)
    except VersionError:
        version = None
    try:
        check_header(data, 1)
    except VersionError:
        return
    assert version is not None
    assert version.number == 1


def listings(data: bytes) -> None:
    """Children and versions read back as they were listed; any other body is read or a ListingError."""
    draw = Draw(data)
    names = [draw.text(4).replace("/", "").replace("\n", "") for _ in range(draw.below(5))]
    children = [Child(name, draw.flag()) for name in names if name not in ("", ".", "..") and "\x00" not in name]
    try:
        page = render_list("/" + draw.text(2), children, page_size=draw.below(5) + 1)
    except UnicodeEncodeError:
        children = []  # names of a store are UTF-8
    else:
        assert tuple(parse_list(page.body)) == page.children == tuple(children)[: len(page.children)]
        assert page.complete == (len(page.children) == len(children))
    lines = [VersionLine(draw.below(99), "2026-11-30T09:00:00Z") for _ in range(draw.below(4))]
    assert parse_versions(render_versions("/" + draw.unicode(3), lines)) == lines
    for parse in (parse_list, parse_versions, parse_matches):
        try:
            parse(data)
        except ListingError:
            continue


def lookups(data: bytes) -> None:
    """Matches read back as they were rendered, white space at the ends of a cell apart."""
    draw = Draw(data)
    body = draw.flag()

    def cell() -> str:
        return " ".join(draw.unicode(4).replace(",", " ").split())

    matches = [
        Match(
            path="/" + cell(),
            importance=draw.below(101) / 100,
            title=cell(),
            tags=tuple(filter(None, (cell() for _ in "12"))),
            anchor="".join(filter(str.isalnum, draw.unicode(2))),
            snippet=cell() if body else None,
        )
        for _ in range(draw.below(4))
    ]
    assert parse_matches(render_matches(draw.unicode(3), "/", matches, body=body)) == matches


def markdown(data: bytes) -> None:
    """Every document has an outline and links; its sections hold all of it, each under an anchor of its own."""
    draw = Draw(data)
    body = draw.text(40, pieces=MARKDOWN).encode(errors="surrogateescape") if draw.flag() else draw.rest()
    made = sections(body)
    text = body.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    assert "\n".join(section.text for section in made).strip() == text.strip()
    anchors = [section.anchor for section in made if section.heading]
    assert len(set(anchors)) == len(anchors)
    assert [section.heading for section in made if section.heading] == [heading.text for heading in headings(body)]
    for section in made[1:3]:
        whole = cut(body, section.anchor)
        assert whole is not None
        assert whole in body
    assert first_title(body) == first_title(body).strip()
    for link in links(body):
        assert link.anchor in ("", *anchors)
    for part in text.split("\n")[:5]:
        plain(part)
    relations({"rel-" + draw.text(1): draw.text()})


def graphs(data: bytes) -> None:
    """A graph has a row for each node and edge, whatever is in them."""
    draw = Draw(data)
    nodes = [Node(url="mark://h/" + draw.line(2), title=draw.text(3)) for _ in range(draw.below(3))]
    edges = [Edge(source="mark://h/", target="mark://h/" + draw.line(2), label=draw.text(3)) for _ in nodes]
    lines = render_graph(nodes, edges, exported="2026-11-30T09:00:00Z").decode(errors="surrogateescape").split("\n")
    rows = [line for line in lines if line.startswith("| ") and "mark://" in line]
    assert len(rows) == len(nodes) + len(edges)
