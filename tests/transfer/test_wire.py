"""Import over the wire: stored bytes rebuilt from what a server tells, equal or not taken."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from demarkus_world.transfer.model import SourceError
from demarkus_world.transfer.report import Report
from demarkus_world.transfer.wire import Wire
from mark_protocol.client.client import MarkClient
from mark_protocol.client.pool import Pool
from mark_protocol.listings import Child, VersionLine, render_list, render_versions
from mark_protocol.rebuild import rebuilt
from mark_protocol.request import Request, Verb
from mark_protocol.response import Response
from mark_protocol.transport.port import Trust
from mark_protocol.versions import encode_version, etag, parse_version

MakeTree = Callable[..., Any]
MakeTarget = Callable[..., Any]
Versions = Callable[..., list[bytes]]
COMMAND = str(Path(sys.executable).with_name("demarkus-world"))


async def no_pause(seconds: float) -> None:
    """Waiting for a busy server costs no time here."""


@asynccontextmanager
async def client_of(world: Any, token: str | None = "reader") -> Any:
    pool = Pool([("127.0.0.1", world.port)], server_name="localhost", trust=Trust(roots=world.roots), size=2)
    try:
        yield MarkClient(pool, auth=token)
    finally:
        await pool.close()


async def take(target: Any, world: Any, *, start: str = "/", token: str | None = "reader") -> Report:
    report = Report()
    async with client_of(world, token) as client:
        return await target.take(Wire(client, report, start=start, pause=no_pause), report)


@pytest.fixture
def a_served(start_world: Callable[..., Any], token_file: Callable[..., str]) -> Callable[..., Any]:
    """Serves the tree of a Go server: imported by the command, then a world process."""

    def serve(tree: Path, **fields: Any) -> Any:
        tokens = token_file(("reader", "/**", ("read",)), ("writer", "/**", ("read", "publish", "prune")))
        world = start_world(tokens=tokens, begin=False, **fields)
        done = subprocess.run(
            [COMMAND, "import", str(tree), "--config", str(world.folder / "world.yaml")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        world.start()
        return world

    return serve


class TestARealWorld:
    async def test_everything_comes_over_and_etags_are_equal(
        self, a_tree: MakeTree, a_target: MakeTarget, a_served: Callable[..., Any], versions: Versions
    ) -> None:
        tree, direct, over = a_tree(), await a_target(), await a_target()
        tree.document("/tea.md", versions("one\n", "two\n", "three\n", metadata={"tags": "a, b", "zeta": "0: #x"}))
        tree.document("/deep/er/cup.md", versions("---\nown: front matter\n---\n# Cup\n", "", "no end"))
        tree.document("/deep/gone.md", archive_state=b"true\n")
        tree.document("/deep/pruned.md", versions("c\n", "d\n", first=3), first=3)
        tree.document("/.well-known/agent-manifest.md")
        march = b"---\nversion: 1\narchived: false\nmeta.tags: a, b\nmeta.title: T\n---\n# March\n"
        tree.document("/march.md", [march])
        await direct.take_tree(tree.root)
        report = await take(over, a_served(tree.root))
        assert (report.versions, report.refused, report.notes) == (13, 0, [])
        assert await over.paths() == await direct.paths()
        for path in await direct.paths():
            assert await over.stored(path) == await direct.stored(path), path
            assert await over.archived(path) == await direct.archived(path), path
        chain = await over.engine.check_chain("/deep/pruned.md")
        assert (chain.state, chain.first_retained) == ("pruned", 3)
        records = (await over.engine.view(exact=True)).versions("/tea.md")
        assert [record.modified // 1000 for record in records] == [1_700_000_000, 1_700_000_060, 1_700_000_120]

    async def test_a_second_run_adds_what_was_written_since(
        self, a_tree: MakeTree, a_target: MakeTarget, a_served: Callable[..., Any], versions: Versions
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md", versions("one\n"))
        tree.document("/cup.md", versions("one\n", "two\n"))
        world = a_served(tree.root)
        await take(target, world)
        assert (await take(target, world)).present == 2
        await world.request("PUBLISH", "/tea.md", b"two\n", auth="writer")
        await world.request("PUBLISH", "/tea.md", b"three\n", auth="writer")
        await world.request("ARCHIVE", "/cup.md", auth="writer")
        report = await take(target, world)
        assert (report.versions, report.archived, report.refused) == (2, 1, 0)
        assert [etag(stored) for stored in await target.stored("/tea.md")] == [
            (await world.request("FETCH", f"/tea.md/v{n}", auth="reader")).metadata["etag"] for n in (1, 2, 3)
        ]
        assert await target.archived("/cup.md") is True

    async def test_an_upstream_server_does_not_tell_what_comes_before_the_oldest_version(
        self, a_tree: MakeTree, a_target: MakeTarget, a_served: Callable[..., Any], versions: Versions
    ) -> None:
        tree, target = a_tree(), await a_target()
        stored = tree.document("/tea.md", versions("b\n", "c\n", "d\n", first=2), first=2)
        tree.document("/alone.md", versions("b\n", first=2), first=2)
        report = await take(target, a_served(tree.root, history="compatible"))
        assert await target.stored("/tea.md") == stored[1:]
        assert await target.paths() == ["/tea.md"]
        assert {(refusal.path, refusal.versions) for refusal in report.refusals} == {
            ("/tea.md", (2, 2)),
            ("/alone.md", None),
        }

    async def test_all_pages_of_a_large_directory_are_read(
        self, a_tree: MakeTree, a_served: Callable[..., Any], versions: Versions
    ) -> None:
        tree, stored = a_tree(), versions("x\n")
        paths = [f"/many/{number:05}.md" for number in range(1001)]
        for path in paths:
            tree.document(path, stored)
        async with client_of(a_served(tree.root)) as client:
            wire = Wire(client, Report(), start="/many", pause=no_pause)
            assert [candidate.path async for candidate in wire.candidates()] == paths

    async def test_one_directory_or_one_document_alone(
        self, a_tree: MakeTree, a_target: MakeTarget, a_served: Callable[..., Any]
    ) -> None:
        tree, target = a_tree(), await a_target()
        for path in ("/a/one.md", "/a/b/two.md", "/three.md", "/four.md"):
            tree.document(path)
        world = a_served(tree.root)
        await take(target, world, start="/a/")
        await take(target, world, start="/four.md")
        assert await target.paths() == ["/a/b/two.md", "/a/one.md", "/four.md"]

    async def test_without_a_credential_nothing_comes_over(
        self, a_tree: MakeTree, a_target: MakeTarget, a_served: Callable[..., Any]
    ) -> None:
        tree, target = a_tree(), await a_target()
        tree.document("/tea.md")
        world = a_served(tree.root)
        with pytest.raises(SourceError, match="unauthorized"):
            await take(target, world, token=None)


class March:
    """What a server of March 2026 answers: no etag for versions, no paging keys, sometimes nothing at all."""

    def __init__(self, documents: Mapping[str, list[tuple[dict[str, str], bytes]]], *, silent_every: int = 0) -> None:
        self._documents = documents
        self._silent_every = silent_every
        self.asked = 0

    def stored(self, path: str) -> list[bytes]:
        """What it keeps."""
        kept: list[bytes] = []
        for number, (metadata, body) in enumerate(self._documents[path], 1):
            lines = [f"version: {number}", "archived: false"]
            if kept:
                lines.append(f"previous-hash: sha256-{etag(kept[-1])}")
            lines += [f"meta.{key}: {metadata[key]}" for key in sorted(metadata)]
            kept.append(b"---\n" + "\n".join(lines).encode() + b"\n---\n" + body)
        return kept

    async def request(self, request: Request) -> Response:
        """As `MarkClient.request`."""
        await asyncio.sleep(0)
        self.asked += 1
        if self._silent_every and self.asked % self._silent_every == 0:
            return Response("rate-limited")
        match request.verb:
            case Verb.LIST:
                names = [Child(path[1:]) for path in sorted([*self._documents, "/flat.md"])]
                return Response("ok", {"entries": str(len(names))}, render_list("/", names).body)
            case Verb.VERSIONS if request.path in self._documents:
                numbers = range(len(self._documents[request.path]), 0, -1)
                body = render_versions(request.path, [VersionLine(n, "2026-03-01T09:00:00Z") for n in numbers])
                return Response("ok", {"total": str(len(numbers)), "current": str(len(numbers))}, body)
            case Verb.FETCH if (base := request.path.partition("/v")[0]) in self._documents:
                versions = self._documents[base]
                number = int(request.path.partition("/v")[2] or len(versions))
                metadata, body = versions[number - 1]
                told = {**metadata, "version": str(number), "modified": "2026-03-01T09:00:00Z"}
                if request.path == base:
                    told["etag"] = self.etag_of_head(base)
                return Response("ok", told, body)
        return Response.error("not-found", f"{request.path} not found")

    def etag_of_head(self, path: str) -> str:
        """The only etag it tells."""
        return etag(self.stored(path)[-1])


class TestAMarchServer:
    DOCUMENTS: Mapping[str, list[tuple[dict[str, str], bytes]]] = {
        "/tea.md": [({}, b"one\n"), ({"tags": "a,  b", "title": "T"}, b"two\n"), ({"rel-x": "y"}, b"three\n")],
        "/cup.md": [({"type": "Note"}, b"one\n")],
    }

    async def test_the_chain_is_rebuilt_and_proven_by_the_newest_etag(self, a_target: MakeTarget) -> None:
        target, server, report = await a_target(), March(self.DOCUMENTS, silent_every=3), Report()
        await target.take(Wire(server, report, pause=no_pause), report)  # type: ignore[arg-type]
        assert await target.paths() == ["/cup.md", "/tea.md"]
        for path in self.DOCUMENTS:
            assert await target.stored(path) == server.stored(path)
        assert report.refused == 0

    async def test_a_chain_that_does_not_lead_to_it_is_refused(self, a_target: MakeTarget) -> None:
        class Liar(March):
            def etag_of_head(self, path: str) -> str:
                return "0" * 64 if path == "/tea.md" else super().etag_of_head(path)

        target, report = await a_target(), Report()
        await target.take(Wire(Liar(self.DOCUMENTS), report, pause=no_pause), report)  # type: ignore[arg-type]
        assert await target.paths() == ["/cup.md"]
        assert [refusal.path for refusal in report.refusals] == ["/tea.md"]

    async def test_a_server_that_never_has_time_ends_the_import(self, a_target: MakeTarget) -> None:
        target, report = await a_target(), Report()
        with pytest.raises(SourceError, match="rate-limited"):
            await target.take(Wire(March({}, silent_every=1), report, pause=no_pause), report)  # type: ignore[arg-type]


class TestRebuilding:
    @pytest.mark.parametrize(
        "stored",
        [
            encode_version(1, None, {"type": "Document", "tags": "a,b", "z": ""}, b"x"),
            encode_version(2, "ab" * 32, {}, b"---\nown\n---\n").replace(b"archived: false", b"archived: true"),
            b"---\nversion: 1\narchived: true\nmeta.tags: a, b\nmeta.title: t\n---\n",
            b"---\nversion: 1\narchived: false\nmeta.tags: a,b\n---\nx",
        ],
    )
    def test_the_forms_of_all_servers_are_found(self, stored: bytes) -> None:
        version = parse_version(stored)
        assert rebuilt(etag(stored), version.number, version.previous, version.metadata, version.body) == stored

    def test_anything_else_is_not(self) -> None:
        stored = b"---\nversion: 1\narchived: false\nmeta.tags: a ,b\n---\nx"
        assert rebuilt(etag(stored), 1, None, {"tags": "a,b"}, b"x") is None
