"""Mark protocol 4.2: LIST."""

from __future__ import annotations

import base64

import pytest

from tests.conformance.answers import NOTE, Answer, entries
from tests.conformance.server import Server, content_hash, eventually

rule = pytest.mark.rule

CURSOR_MESSAGES = {
    "invalid LIST cursor",
    "unsupported LIST cursor",
    "LIST cursor exceeds limit",
    "LIST cursor does not match this request",
}


def listed(server: Server, directory: str, names: list[str], **metadata: str) -> Answer:
    """A LIST that shows exactly these names, as soon as it does: it may lag by a second."""

    def shown() -> Answer | None:
        answer = server.ask("LIST", directory, **metadata)
        return answer if answer.status == "ok" and entries(answer, directory) == names else None

    answer = eventually(f"a LIST of {names}", shown)
    assert isinstance(answer, Answer)
    return answer


def pages(server: Server, directory: str, *sizes: str, role: str | None = None, **metadata: str) -> list[list[str]]:
    """All pages of a directory, their sizes taken in turn."""
    found: list[list[str]] = []
    cursor: dict[str, str] = {}
    while True:
        size = sizes[len(found) % len(sizes)]
        answer = server.ask("LIST", directory, role=role, page_size=size, **metadata, **cursor)
        found.append(entries(answer, directory))
        assert answer.meta["complete"] in ("true", "false")
        incomplete = answer.meta["complete"] == "false"
        assert incomplete == ("next-cursor" in answer.meta) == answer.text.endswith(NOTE)
        assert len(found[-1]) <= int(size)
        if not incomplete:
            return found
        assert found[-1], "an incomplete page without an entry"
        cursor = {"cursor": answer.meta["next-cursor"]}


def together(found: list[list[str]]) -> list[str]:
    """The names of all pages."""
    return [name for page in found for name in page]


@pytest.fixture
def five(server: Server, place: str) -> str:
    """A directory of five documents."""
    server.publish_all({f"{place}/{name}.md": b"x" for name in "abcde"})
    listed(server, place, ["a.md", "b.md", "c.md", "d.md", "e.md"])
    return place


class TestEntries:
    @rule("4.2", "form")
    def test_heading_entries_and_counts(self, server: Server, place: str) -> None:
        server.publish(f"{place}/tea.md")
        server.publish(f"{place}/old_pots/a.md")
        answer = listed(server, place, ["old_pots/", "tea.md"])
        heading = place.replace("_", "\\_")
        assert answer.text == f"\n# Index of {heading}/\n\n- [old\\_pots/](old_pots/)\n- [tea.md](tea.md)\n"
        assert sorted(answer.lines) == sorted(['complete: "true"', 'entries: "2"', "status: ok"])
        assert server.ask("LIST", f"{place}/").raw == answer.raw

    @rule("4.2", "byte-order")
    def test_names_are_in_the_order_of_their_bytes(self, server: Server, place: str) -> None:
        names = [
            "B.md",
            "a",
            "a b.md",
            "a!.md",
            "a-b/",
            "a-b.md",
            "a.md",
            "a/",
            "aa.md",
            "ab/",
            "z.md",
            "~.md",
            "é.md",
            "😀/",
        ]
        paths = [f"{place}/{name}x.md" if name.endswith("/") else f"{place}/{name}" for name in names]
        server.publish_all({path: b"x" for path in paths if path.endswith(".md")})
        # A directory sorts by its name without the slash, so `a/` comes before `a b.md`.
        ordered = [
            "B.md",
            "a/",
            "a b.md",
            "a!.md",
            "a-b/",
            "a-b.md",
            "a.md",
            "aa.md",
            "ab/",
            "z.md",
            "~.md",
            "é.md",
            "😀/",
        ]
        listed(server, place, ordered)

    @rule("4.2", "hidden-names")
    def test_names_with_a_dot_in_front_are_left_out(self, server: Server, place: str) -> None:
        for name in (".a.md", ".sub/b.md", "c.md", "sub/.d.md"):
            server.publish(f"{place}/{name}")
        listed(server, place, ["c.md"])
        for directory in (f"{place}/.sub", f"{place}/sub"):
            answer = server.ask("LIST", directory)
            assert answer.status == "not-found" or entries(answer, directory) in ([], ["b.md"])

    @rule("4.2", "hidden-names")
    def test_the_name_versions_is_left_out_or_refused(self, server: Server, place: str) -> None:
        answer = server.ask("PUBLISH", f"{place}/versions/a.md", b"x")
        server.reads("can" if answer.status == "created" else "can't", of="4.2: documents below a segment `versions`")
        server.publish(f"{place}/b.md")
        assert answer.status in ("created", "bad-request")
        listed(server, place, ["b.md"])

    @rule("4.2", "empty-directories")
    def test_directories_without_a_visible_document_are_left_out(self, server: Server, place: str) -> None:
        for name in ("a.md", "gone/b.md", "gone/deep/c.md", "deep/er/d.md", "hidden/.e.md"):
            server.publish(f"{place}/{name}")
        server.archive(f"{place}/gone/b.md")
        server.archive(f"{place}/gone/deep/c.md")
        listed(server, place, ["a.md", "deep/"])
        listed(server, place, ["a.md", "deep/", "gone/"], include_archived="true")

    @rule("4.2", "archived")
    def test_archived_documents_are_left_out(self, server: Server, place: str) -> None:
        server.publish_all({f"{place}/{name}.md": b"x" for name in "abc"})
        server.archive(f"{place}/b.md")
        for text in ("false", ""):
            listed(server, place, ["a.md", "c.md"], include_archived=text)
        listed(server, place, ["a.md", "b.md", "c.md"], include_archived="true")
        assert server.ask("PUBLISH", f"{place}/b.md").status == "ok"
        listed(server, place, ["a.md", "b.md", "c.md"])

    @rule("4.2", "not-a-directory")
    def test_what_is_no_directory_is_not_found(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md")
        listed(server, place, ["a.md"])
        for path in (f"{place}/a.md", f"{place}/none", f"{place}/a", f"{place}/a.md/v1"):
            assert server.ask("LIST", path).message == f"{path} not found"
        assert server.ask("LIST", f"/{content_hash(b'# Tea')}").status == "not-found"


class TestPages:
    @rule("4.2", "paging")
    @rule("4.2", "complete")
    @pytest.mark.parametrize("sizes", [("1",), ("2",), ("5",), ("1000",), ("1", "3"), ("4", "1")])
    def test_pages_follow_one_another(self, server: Server, five: str, sizes: tuple[str, ...]) -> None:
        found = pages(server, five, *sizes)
        assert together(found) == ["a.md", "b.md", "c.md", "d.md", "e.md"]
        assert all(len(page) == int(sizes[index % len(sizes)]) for index, page in enumerate(found[:-1]))

    @rule("4.2", "complete")
    def test_a_full_page_without_a_successor_is_complete(self, server: Server, five: str) -> None:
        assert [len(page) for page in pages(server, five, "5")] == [5]

    @rule("4.2", "cursor-survives")
    def test_a_page_goes_on_behind_a_name_that_is_gone(self, server: Server, five: str) -> None:
        first = server.ask("LIST", five, page_size="2")
        server.archive(f"{five}/b.md")
        server.publish(f"{five}/bb.md")
        listed(server, five, ["a.md", "bb.md", "c.md", "d.md", "e.md"])
        rest = server.ask("LIST", five, cursor=first.meta["next-cursor"])
        assert entries(rest, five) == ["bb.md", "c.md", "d.md", "e.md"]
        assert rest.meta["complete"] == "true"

    @rule("4.2", "filtered-before-paging")
    def test_archived_documents_do_not_count(self, server: Server, five: str) -> None:
        for name in "bd":
            server.archive(f"{five}/{name}.md")
        listed(server, five, ["a.md", "c.md", "e.md"])
        assert pages(server, five, "2") == [["a.md", "c.md"], ["e.md"]]
        assert pages(server, five, "3") == [["a.md", "c.md", "e.md"]]
        assert pages(server, five, "3", include_archived="true") == [["a.md", "b.md", "c.md"], ["d.md", "e.md"]]

    @rule("4.2", "filtered-before-paging")
    def test_what_may_not_be_read_does_not_count(self, server: Server) -> None:
        """The base holds private areas beside open ones; who may not read them sees none of them."""
        if server.profile.reads != "public":
            server.cannot("where every read needs a token, no directory is open that holds a private one")
        server.publish(f"{server.place('vault')}/a.md", role="vault")
        server.publish(f"{server.place('open')}/a.md")
        base = server.profile.base
        eventually("the areas", lambda: {"vault/", "open/"} <= set(together(pages(server, base, "1000", role="vault"))))
        visible = together(pages(server, base, "1000", role=""))
        assert "open/" in visible
        assert "vault/" not in visible
        assert together(pages(server, base, "1", role="")) == visible


class TestParameters:
    @rule("4.2", "parameters")
    @pytest.mark.parametrize("size", ["0", "1001", "-1", "x", "1.5", " 1", "1 ", "99999999999999999999", "1e2"])
    def test_page_sizes(self, server: Server, place: str, size: str) -> None:
        server.publish(f"{place}/a.md")
        answer = server.ask("LIST", place, page_size=size)
        assert (answer.status, answer.message) == ("bad-request", "page-size must be between 1 and 1000")

    @rule("4.2", "parameters")
    @pytest.mark.parametrize("text", ["TRUE", "1", "yes", "true ", "x"])
    def test_include_archived(self, server: Server, place: str, text: str) -> None:
        answer = server.ask("LIST", place, include_archived=text)
        assert (answer.status, answer.message) == ("bad-request", "include-archived must be true or false")

    @rule("4.2", "cursor-errors")
    @pytest.mark.parametrize(
        "cursor",
        [
            "!!!",
            "AQ",
            "x",
            "AQAABi9ub3Rlc2N1cHMubWQ=",
            base64.urlsafe_b64encode(b"\2\0\0\1/a").decode(),
            "A" * 11_000,
            "é",
        ],
    )
    def test_a_cursor_that_is_none(self, server: Server, five: str, cursor: str) -> None:
        answer = server.ask("LIST", five, cursor=cursor)
        assert answer.status == "bad-request"
        assert answer.message in CURSOR_MESSAGES

    @rule("4.2", "cursor-errors")
    def test_the_cursor_of_another_request(self, server: Server, five: str) -> None:
        other = server.place()
        server.publish(f"{other}/a.md")
        listed(server, other, ["a.md"])
        cursor = server.ask("LIST", five, page_size="1").meta["next-cursor"]
        for directory, more in ((other, {}), (five, {"include_archived": "true"})):
            answer = server.ask("LIST", directory, cursor=cursor, **more)
            assert answer.status == "bad-request"
            assert answer.message == "LIST cursor does not match this request"
        assert entries(server.ask("LIST", f"/{five}//", cursor=cursor), five) == ["b.md", "c.md", "d.md", "e.md"]

    @rule("4.2", "check-order")
    def test_parameters_are_looked_at_one_after_the_other(self, server: Server, place: str) -> None:
        bad = {"include_archived": "x", "page_size": "0", "cursor": "!"}
        address = f"/{content_hash(b'nothing')}"
        assert server.ask("LIST", address, **bad).message == f"{address} not found"
        assert server.ask("LIST", place, **bad).message == "include-archived must be true or false"
        del bad["include_archived"]
        assert server.ask("LIST", place, **bad).message == "page-size must be between 1 and 1000"
        del bad["page_size"]
        assert server.ask("LIST", place, **bad).message in CURSOR_MESSAGES
        assert server.ask("LIST", place).message == f"{place} not found"

    @rule("4.2", "check-order")
    def test_the_right_to_read_is_looked_at_first(self, server: Server) -> None:
        secret = f"{server.place('vault')}/none"
        answer = server.ask("LIST", secret, role="", include_archived="x", page_size="0", cursor="!")
        assert answer.message == "authentication required"
