"""LIST: which entries show, in which order, page by page."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from mark_protocol.cursors import encode_cursor
from mark_protocol.response import Response


def message(response: Response) -> str:
    return response.body.decode().split("\n")[3]


async def test_entries_are_the_visible_children_in_byte_order(a_world: Callable[..., Any]) -> None:
    world = await a_world(compatible=True)
    for path in ("/d/tea.md", "/d/old_pots/a.md", "/d/cups.md", "/d/.hidden.md", "/d/versions/a.md", "/d/Z.md"):
        await world.publish(path)
    response = await world.ask("LIST", "/d/")
    assert response.metadata == {"entries": "4", "complete": "true"}
    assert response.body == (
        b"\n# Index of /d/\n\n- [Z.md](Z.md)\n- [cups.md](cups.md)\n- [old\\_pots/](old_pots/)\n- [tea.md](tea.md)\n"
    )


async def test_c_3_directories_without_anything_visible_are_left_out(a_world: Callable[..., Any]) -> None:
    world = await a_world()
    for path in ("/archived/deep/a.md", "/hidden/.a.md", "/hidden/.b/c.md", "/live/a.md"):
        await world.publish(path)
    await world.ask("ARCHIVE", "/archived/deep/a.md")
    assert await world.names("/") == ["live/"]
    assert await world.names("/", include_archived="true") == ["archived/", "live/"]
    assert await world.names("/archived/deep") == []
    assert await world.names("/hidden") == []


async def test_what_is_no_directory_is_not_found(a_world: Callable[..., Any]) -> None:
    world = await a_world()
    await world.publish("/a.md")
    for path in ("/a.md", "/nowhere", "/sha256-" + "0" * 64):
        assert message(await world.ask("LIST", path)) == f"{path} not found"
    assert message(await world.ask("LIST", "/nowhere/")) == "/nowhere not found"


async def test_a_30_names_with_tabs_and_markup_are_escaped(a_world: Callable[..., Any]) -> None:
    world = await a_world()
    await world.publish("/d/a\tb|c.md")
    assert (await world.ask("LIST", "/d")).body.endswith(b"- [a\tb\\|c.md](a%09b%7Cc.md)\n")


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"include_archived": "yes"}, "include-archived must be true or false"),
        ({"page_size": "0"}, "page-size must be between 1 and 1000"),
        ({"page_size": "1001"}, "page-size must be between 1 and 1000"),
        ({"page_size": "ten"}, "page-size must be between 1 and 1000"),
        ({"cursor": "?"}, "invalid LIST cursor"),
        ({"cursor": base64.urlsafe_b64encode(b"\2\0\0\2/da").decode().rstrip("=")}, "unsupported LIST cursor"),
        ({"cursor": base64.urlsafe_b64encode(b"\1\2\0\2/da").decode().rstrip("=")}, "unsupported LIST cursor"),
        ({"cursor": "A" * 12_000}, "LIST cursor exceeds limit"),
        ({"cursor": encode_cursor("/e", "a", include_archived=False)}, "LIST cursor does not match this request"),
        ({"cursor": encode_cursor("/d", "a", include_archived=True)}, "LIST cursor does not match this request"),
        # The first of several is told.
        ({"include_archived": "x", "page_size": "0", "cursor": "?"}, "include-archived must be true or false"),
        ({"page_size": "0", "cursor": "?"}, "page-size must be between 1 and 1000"),
    ],
)
async def test_parameters_are_checked_in_order_and_before_the_directory(
    a_world: Callable[..., Any], metadata: dict[str, str], problem: str
) -> None:
    world = await a_world()
    response = await world.ask("LIST", "/d", **metadata)
    assert (response.status, message(response)) == ("bad-request", problem)


async def test_the_read_right_comes_before_the_parameters(a_world: Callable[..., Any]) -> None:
    world = await a_world()
    assert (await world.ask("LIST", "/d", auth="", page_size="0")).status == "unauthorized"


class TestPages:
    async def all_pages(self, world: Any, path: str, size: int, **metadata: str) -> list[list[str]]:
        pages, cursor = [], ""
        while True:
            response = await world.ask("LIST", path, page_size=str(size), cursor=cursor, **metadata)
            names = [line[3:].partition("]")[0] for line in response.body.decode().splitlines() if line[:3] == "- ["]
            assert response.metadata["entries"] == str(len(names))
            pages.append(names)
            cursor = response.metadata.get("next-cursor", "")
            assert bool(cursor) == (response.metadata["complete"] == "false") == (b"truncated" in response.body)
            if not cursor:
                return pages

    async def test_pages_follow_one_another(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        for name in "abcde":
            await world.publish(f"/d/{name}.md")
        assert await self.all_pages(world, "/d", 2) == [["a.md", "b.md"], ["c.md", "d.md"], ["e.md"]]
        assert await self.all_pages(world, "/d", 5) == [["a.md", "b.md", "c.md", "d.md", "e.md"]]

    async def test_a_page_is_a_known_sequence_of_bytes(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        for name in ("cups.md", "old_pots/a.md", "tea.md"):
            await world.publish(f"/notes/{name}")
        response = await world.ask("LIST", "/notes/", page_size="1")
        assert response.metadata["next-cursor"] == "AQAABi9ub3Rlc2N1cHMubWQ"
        assert response.body == (b"\n# Index of /notes/\n\n- [cups.md](cups.md)\n\n*...truncated, too many entries*\n")

    async def test_c_2_what_does_not_show_does_not_count(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(tokens=(("admin", "/**", ("publish",)), ("reader", "/d/*x.md", ("read",))))
        for name in ("a", "ax", "b", "bx", "c", "d", "e"):
            await world.publish(f"/d/{name}.md")
        await world.ask("ARCHIVE", "/d/b.md")
        await world.ask("ARCHIVE", "/d/d.md")
        assert await self.all_pages(world, "/d", 2, auth="") == [["a.md", "c.md"], ["e.md"]]

    async def test_a_page_goes_on_behind_a_name_that_is_gone(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        for name in "abc":
            await world.publish(f"/d/{name}.md")
        cursor = (await world.ask("LIST", "/d", page_size="2")).metadata["next-cursor"]
        await world.ask("ARCHIVE", "/d/b.md")
        assert await world.names("/d", cursor=cursor) == ["c.md"]

    async def test_a_page_has_at_most_a_thousand_entries(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        for number in range(1001):
            await world.publish(f"/d/{number:04}.md", b"x")
        assert [len(page) for page in await self.all_pages(world, "/d", 1000)] == [1000, 1]
        fetched = await world.ask("FETCH", "/d")
        assert fetched.metadata["entries"] == "1000"
        assert fetched.body.endswith(b"\n*...truncated, too many entries*\n")


class TestPublicReads:
    async def test_rows_that_may_not_be_read_are_left_out(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(
            tokens=(
                ("admin", "/**", ("publish",)),
                ("vault", "/vault/**", ("read",)),
                ("file", "/d/secret.md", ("read",)),
                ("listing", "/closed/*", ("read",)),
            )
        )
        for path in ("/vault/a.md", "/d/secret.md", "/d/open.md", "/closed/a.md", "/closed/deep/a.md"):
            await world.publish(path)
        assert await world.names("/", auth="") == ["d/"]
        assert await world.names("/", auth="vault") == ["d/", "vault/"]
        assert await world.names("/d", auth="") == ["open.md"]
        assert await world.names("/d", auth="file") == ["open.md", "secret.md"]
        # Pitfall A17: the pattern closes the listings and the files, not what is deeper.
        assert (await world.ask("LIST", "/closed", auth="")).status == "unauthorized"
        assert (await world.ask("LIST", "/closed/deep", auth="")).status == "unauthorized"
        assert (await world.ask("FETCH", "/closed/deep/a.md", auth="")).status == "ok"

    async def test_a_protected_directory_answers_the_same_whether_it_exists_or_not(
        self, a_world: Callable[..., Any]
    ) -> None:
        world = await a_world(tokens=(("admin", "/**", ("publish",)), ("vault", "/vault/**", ("read",))))
        absent = await world.ask("LIST", "/vault/deep", auth="")
        await world.publish("/vault/deep/a.md")
        assert await world.ask("LIST", "/vault/deep", auth="") == absent


@pytest.mark.parametrize("reads", ["universe", "scoped"])
class TestClosedReads:
    TOKENS = (
        ("admin", "/**", ("publish", "read")),
        ("team", "/teams/a/**", ("read",)),
        ("maps", "/*/maps/*.md", ("read",)),
        ("writer", "/**", ("publish",)),
    )

    async def filled(self, a_world: Callable[..., Any], reads: str) -> Any:
        world = await a_world(reads=reads, tokens=self.TOKENS)
        for path in (
            "/index.md",
            "/teams/readme.md",
            "/teams/a/plan.md",
            "/teams/b/plan.md",
            "/north/maps/a.md",
            "/south/notes/a.md",
            "/west/maps/deep/a.md",
        ):
            await world.publish(path)
        return world

    async def test_nothing_shows_without_a_credential(self, a_world: Callable[..., Any], reads: str) -> None:
        world = await self.filled(a_world, reads)
        for path in ("/", "/teams", "/nowhere"):
            assert (await world.ask("LIST", path, auth="")).status == "unauthorized"
            assert (await world.ask("LIST", path, auth="writer")).status == "not-permitted"

    async def test_a_caller_walks_down_to_what_it_may_read_and_sees_nothing_beside(
        self, a_world: Callable[..., Any], reads: str
    ) -> None:
        world = await self.filled(a_world, reads)
        assert await world.names("/", auth="team") == ["teams/"]
        assert await world.names("/teams", auth="team") == ["a/"]
        assert await world.names("/teams/a", auth="team") == ["plan.md"]
        assert (await world.ask("LIST", "/teams/b", auth="team")).status == "not-permitted"
        fetched = await world.ask("FETCH", "/", auth="team")  # the index may not be read
        assert fetched.body == b"\n# Index of /\n\n- [teams/](teams/)\n"
        assert (await world.ask("FETCH", "/", auth="admin")).body == b"# Tea\n"

    async def test_a_directory_shows_only_if_something_below_it_does(
        self, a_world: Callable[..., Any], reads: str
    ) -> None:
        world = await self.filled(a_world, reads)
        assert await world.names("/", auth="maps") == ["north/"]
        await world.ask("ARCHIVE", "/north/maps/a.md")
        assert await world.names("/", auth="maps") == []
        assert await world.names("/", auth="maps", include_archived="true") == ["north/"]

    async def test_the_existence_of_an_unreadable_directory_is_not_told(
        self, a_world: Callable[..., Any], reads: str
    ) -> None:
        world = await self.filled(a_world, reads)
        for there, absent in (("/south", "/nowhere"), ("/south/maps", "/nowhere/maps"), ("/west/maps", "/x/maps")):
            for verb in ("LIST", "FETCH"):
                answers = [await world.ask(verb, path, auth="maps") for path in (there, absent)]
                assert [answer.status for answer in answers] == ["not-found", "not-found"]

    async def test_the_existence_of_an_unreadable_document_is_not_told(
        self, a_world: Callable[..., Any], reads: str
    ) -> None:
        world = await self.filled(a_world, reads)
        for verb in ("FETCH", "LIST", "VERSIONS"):
            answers = [await world.ask(verb, path, auth="team") for path in ("/teams/b/plan.md", "/teams/b/none.md")]
            assert answers[0] == answers[1]
