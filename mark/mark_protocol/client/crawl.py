"""Documents and their links, from one document on, as far as they are on one server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from mark_protocol.client.client import MarkClient
from mark_protocol.graphs import Edge, Node
from mark_protocol.links import Link, links, relations
from mark_protocol.outline import first_title
from mark_protocol.paths import clean
from mark_protocol.response import Response
from mark_protocol.status import Status
from mark_protocol.urls import MarkURL, resolve

MOST = 200
WORKERS = 5
EXTERNAL, UNVISITED = "external", "unvisited"
"""The status of what lies on another server, or is no document of this protocol; and of what lies too far away."""


@dataclass(slots=True)
class Graph:
    """Nodes by URL, edges by (source, target, relation). `complete` = nothing was left out because of `MOST`."""

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], Edge] = field(default_factory=dict)
    complete: bool = True


async def crawl(
    client: MarkClient, start: MarkURL, *, depth: int, most: int = MOST, looked_at: Callable[[], None] = lambda: None
) -> Graph:
    """Follow links up to `depth` steps from `start`, through at most so many documents. Raises ClientError.

    What does not answer `ok` is a node with that status. Only the server of `start` is asked.
    """
    graph = Graph()
    slots = asyncio.Semaphore(WORKERS)

    async def fetched(url: MarkURL) -> Response:
        async with slots:
            response = await client.fetch(url.path)
            looked_at()
            return response

    level = [replace(start, path=clean(start.path), fragment="")]
    seen = {level[0].identity}
    for step in range(depth + 1):
        following: dict[str, MarkURL] = {}
        # One step after the other, so that a document's distance is the least one whatever answers first.
        answers = await asyncio.gather(*map(fetched, level))
        for url, response in zip(level, answers, strict=True):
            for target in _add(graph, url, response):
                if target.identity not in seen and target.authority == start.authority:
                    following[target.identity] = target
        if step == depth:
            break
        room = most - len(seen)
        graph.complete &= len(following) <= room
        level = [following[name] for name in sorted(following)[:room]]
        seen.update(url.identity for url in level)
    return graph


def _add(graph: Graph, url: MarkURL, response: Response) -> list[MarkURL]:
    """Note a document with its links; where they lead."""
    found: list[Link] = []
    title = url.path.rpartition("/")[2]
    if response.status == Status.OK:
        found = [*links(response.body), *relations(response.metadata)]
        title = response.metadata.get("title", "").strip() or first_title(response.body) or title
    base = url if url.path.endswith(".md") else replace(url, path=url.path.rstrip("/") + "/")
    leads_to: list[MarkURL] = []
    targets: set[str] = set()
    for link in found:
        target = resolve(base, link.target)
        name = link.target if target is None else replace(target, fragment="").identity
        if name == url.identity:
            continue
        targets.add(name)
        if target is not None:
            leads_to.append(replace(target, fragment=""))
        local = target is not None and target.authority == url.authority
        graph.nodes.setdefault(name, Node(url=name, status=UNVISITED if local else EXTERNAL))
        key = (url.identity, name, link.relation)
        known = graph.edges.get(key)
        graph.edges[key] = (
            Edge(source=url.identity, target=name, relation=link.relation, label=link.label, anchor=link.anchor)
            if known is None
            else replace(known, count=known.count + 1)
        )
    graph.nodes[url.identity] = Node(url=url.identity, title=title, status=response.status, links=len(targets))
    return leads_to
