"""Links of a document, where they lead, sections cut out of it, and the graph document."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_protocol.graphs import Edge, Node, render_graph
from mark_protocol.links import Link, links, relations
from mark_protocol.outline import cut, sections
from mark_protocol.urls import MarkURL, parse_url, resolve

BASE = MarkURL("host", 6309, "/docs/guide.md")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[a](b.md)", [Link("b.md", "a")]),
        ("[*a* `b`](<b c.md> 'title')", [Link("b c.md", "a b")]),
        ('[a](b_(c).md "d")', [Link("b_(c).md", "a")]),
        ("[a][r] [r][] [r]\n\n[r]: b.md 'x'", [Link("b.md", "a"), Link("b.md", "r"), Link("b.md", "r")]),
        ("<mark://host/b.md>", [Link("mark://host/b.md", "mark://host/b.md")]),
        ("# One\n\n## Two\n\n[a](b.md)", [Link("b.md", "a", "two")]),
        ("[![seen](image.png)](b.md)", [Link("b.md", "seen")]),
        ("![a](b.png)", []),
        ("`[a](b.md)`", []),
        ("```\n[a](b.md)\n```", []),
        ("    [a](b.md)", []),
        ("[a] (b.md)", []),
        ("[nothing]", []),
    ],
)
def test_links_are_found(text: str, found: list[Link]) -> None:
    assert links(text.encode()) == found


def test_relations_are_links_without_a_text() -> None:
    metadata = {"rel-supersedes": "old.md, /older.md", "rel-": "x.md", "title": "rel-"}
    assert relations(metadata) == [Link("old.md", relation="supersedes"), Link("/older.md", relation="supersedes")]


@given(st.text(alphabet="[]()<>!`#\\ a\n:.", max_size=200))
def test_any_text_has_links_or_none(text: str) -> None:
    for link in links(text.encode()):
        resolve(BASE, link.target)


@pytest.mark.parametrize(
    ("reference", "leads_to"),
    [
        ("b.md", "mark://host/docs/b.md"),
        ("./b.md#x", "mark://host/docs/b.md"),
        ("../b%20c.md?query", "mark://host/b%20c.md"),
        ("../../../b.md", "mark://host/b.md"),
        ("/b.md", "mark://host/b.md"),
        ("//Other:6309/b.md", "mark://other/b.md"),
        ("MARK://host:6310//a//b.md", "mark://host:6310/a/b.md"),
        ("#x", "mark://host/docs/guide.md"),
        ("", "mark://host/docs/guide.md"),
        ("https://example.com/", None),
        ("mailto:a@example.com", None),
        ("mark://", None),
        ("%zz.md", None),
    ],
)
def test_references_lead_somewhere(reference: str, leads_to: str | None) -> None:
    found = resolve(BASE, reference)
    assert (found and found.identity) == leads_to


def test_a_reference_in_a_listing_leads_below_it() -> None:
    found = resolve(parse_url("mark://host/docs/"), "a%2Fb.md#Top")
    assert found == MarkURL("host", 6309, "/docs/a/b.md", "Top")


TEXT = b"lead\r\n# One\r\ntext\n## Two\nmore\n\n### Three\nx\n## Two\nlast\n# Four\nend"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("one", TEXT[6:-10]),
        ("two", b"## Two\nmore\n\n### Three\nx\n"),
        ("two-1", b"## Two\nlast\n"),
        ("three", b"### Three\nx\n"),
        ("four", b"# Four\nend"),
        ("Two", b"## Two\nmore\n\n### Three\nx\n"),
        ("five", None),
        ("", None),
    ],
)
def test_a_section_is_cut_with_all_below_it(name: str, part: bytes | None) -> None:
    assert cut(TEXT, name) == part


@given(st.text(alphabet="# a\n\r=-`>", max_size=80))
def test_every_anchor_names_a_part_of_the_document(text: str) -> None:
    body = text.encode()
    for section in sections(body):
        if section.anchor:
            assert (cut(body, section.anchor) or b"?") in body


def test_a_graph_is_written_as_gateways_read_it() -> None:
    nodes = [
        Node(url="mark://h/b.md", title="B | b", status="ok", links=1),
        Node(url="mark://h/a.md", title="A", status="not-found"),
    ]
    edge = Edge(source="mark://h/b.md", target="mark://h/a.md", label="see\nit", anchor="top", count=2)
    assert render_graph(nodes, [edge], exported="2026-11-30T09:00:00Z").decode().splitlines() == [
        "# Document Graph",
        "",
        "> Exported: 2026-11-30T09:00:00Z",
        "> Nodes: 2",
        "> Edges: 1",
        "",
        "## Nodes",
        "",
        "| URL | Title | Status | Links |",
        "|-----|-------|--------|-------|",
        "| [mark://h/a.md](mark://h/a.md) | A | not-found | 0 |",
        "| [mark://h/b.md](mark://h/b.md) | B \\| b | ok | 1 |",
        "",
        "## Edges",
        "",
        "| From | To | Rel | Label | Anchor | Count |",
        "|------|----|-----|-------|--------|-------|",
        "| mark://h/b.md | mark://h/a.md |  | see it | top | 2 |",
    ]
