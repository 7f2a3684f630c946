"""Documents and their links as one document, `/graph.md`, in the form that gateways read.

Source: Mark protocol 11.2.
"""

from collections.abc import Iterable
from dataclasses import dataclass

_ESCAPED = {ord("\\"): "\\\\", ord("|"): "\\|", ord("\n"): " ", ord("\r"): " "}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A document by its identity: title, status of its FETCH, number of places it links to."""

    url: str
    title: str = ""
    status: str = ""
    links: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """All links of one kind from one document to another: text and section of the first, and how many there are."""

    source: str
    target: str
    relation: str = ""
    label: str = ""
    anchor: str = ""
    count: int = 1


def render_graph(nodes: Iterable[Node], edges: Iterable[Edge], *, exported: str) -> bytes:
    """The document; `exported` is an RFC 3339 time. Nodes are sorted by URL, edges by their ends and relation."""
    nodes = sorted(nodes, key=lambda node: node.url)
    edges = sorted(edges, key=lambda edge: (edge.source, edge.target, edge.relation))
    lines = [
        "# Document Graph",
        "",
        f"> Exported: {exported}",
        f"> Nodes: {len(nodes)}",
        f"> Edges: {len(edges)}",
        "",
        "## Nodes",
        "",
        "| URL | Title | Status | Links |",
        "|-----|-------|--------|-------|",
        *(f"| [{_url(n.url)}]({_url(n.url)}) | {_cell(n.title)} | {_cell(n.status)} | {n.links} |" for n in nodes),
    ]
    if edges:
        lines += [
            "",
            "## Edges",
            "",
            "| From | To | Rel | Label | Anchor | Count |",
            "|------|----|-----|-------|--------|-------|",
            *(
                f"| {_url(e.source)} | {_url(e.target)} | {e.relation} | {_cell(e.label)} | {e.anchor} | {e.count} |"
                for e in edges
            ),
        ]
    return ("\n".join(lines) + "\n").encode(errors="surrogateescape")


def _cell(text: str) -> str:
    return text.translate(_ESCAPED)


def _url(text: str) -> str:
    return text.replace("|", "%7C").replace("\n", "%0A")
