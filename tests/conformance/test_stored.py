"""Mark protocol 7: versions and their bytes, rebuilt here and compared with what the server says of them."""

from __future__ import annotations

import re

import pytest

from tests.conformance.server import Server, content_hash, etag

rule = pytest.mark.rule


class TestBytes:
    @rule("7.2", "stored-bytes")
    @rule("7.2", "key-order")
    @pytest.mark.parametrize(
        "metadata",
        [
            {},
            {"importance": "0.8", "tags": "drinks, kitchen"},
            {"title": "Tea", "description": "of leaves", "resource": "x", "timestamp": "2026-01-01", "type": "Note"},
            {"zebra": "z", "alpha": "a", "tags": "t", "type": "T", "uvw": "u", "title": "x", "tag": "y", "tagsx": "z"},
            {"a1": "x", "a10": "y", "a-1": "z", "a": "w", "9": "n", "-": "h"},
        ],
    )
    def test_the_etag_is_the_hash_of_the_prescribed_bytes(
        self, server: Server, place: str, metadata: dict[str, str]
    ) -> None:
        body = b"# Tea\n\nBoil water first.\n"
        server.publish(f"{place}/a.md", body, **metadata)
        fetched = server.fetch(f"{place}/a.md")
        assert fetched.meta["etag"] == etag(1, "", {"type": "Document"} | metadata, body)
        assert fetched.meta["content-hash"] == content_hash(body)

    @rule("7.2", "raw-values")
    @pytest.mark.parametrize(
        "value",
        ["a: b", "#y", '"x"', "'x'", " a ", "", "- a", "[x, y]", "true", "0.50", "a\tb", "é😀", "---", "\\n", "a:"],
    )
    def test_values_stand_unquoted(self, server: Server, place: str, value: str) -> None:
        server.publish(f"{place}/a.md", b"x", word=value, title=value)
        fetched = server.fetch(f"{place}/a.md")
        assert (fetched.meta["word"], fetched.meta["title"]) == (value, value)
        assert fetched.meta["etag"] == etag(1, "", {"type": "Document", "word": value, "title": value}, b"x")

    @rule("7.2", "tags-as-list")
    @pytest.mark.parametrize(
        ("sent", "kept", "told"),
        [
            ("a,b", "a, b", "a,b"),
            (" a ,, b ,", "a, b", "a,b"),
            ("one tag", "one tag", "one tag"),
            ("", "", ""),
            (" , ", "", ""),
            ("a: b,#c,[d]", "a: b, #c, [d]", "a: b,#c,[d]"),
        ],
    )
    def test_tags_stand_as_a_list(self, server: Server, place: str, sent: str, kept: str, told: str) -> None:
        server.publish(f"{place}/a.md", b"x", tags=sent)
        fetched = server.fetch(f"{place}/a.md")
        assert fetched.meta["tags"] == told
        assert fetched.meta["etag"] == etag(1, "", {"type": "Document", "tags": kept}, b"x")
        assert server.ask("PUBLISH", f"{place}/a.md", b"x", tags=f" {told} ").status == "ok"

    @rule("7.2", "stored-bytes")
    @pytest.mark.parametrize("body", [b"---\nversion: 9\n---\nx", b"\n---\n", b"\r\n", b"x"])
    def test_the_body_stands_behind_the_first_block_as_it_is(self, server: Server, place: str, body: bytes) -> None:
        server.publish(f"{place}/a.md", body)
        fetched = server.fetch(f"{place}/a.md")
        assert fetched.body == body
        assert fetched.meta["etag"] == etag(1, "", {"type": "Document"}, body)


class TestChain:
    @rule("7.3", "chain")
    @rule("7.1", "versions")
    def test_each_version_has_the_hash_of_the_one_before(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        kept = {"type": "Document", "importance": "0.8", "tags": "drinks, kitchen"}
        first, second = b"# Tea\n\nBoil water first.\n", b"# Tea\n\nBoil water first.\n\n## Green\n"
        server.publish(path, first, importance="0.8", tags="drinks,kitchen", expected_version="0")
        server.publish(path, second, importance="0.8", tags="drinks,kitchen", expected_version="1")
        server.append(path, b"\nUse cooler water.\n", expected=2)
        server.publish(path, b"# Tea\n")
        bodies = [(first, kept), (second, kept), (second + b"\nUse cooler water.\n", kept)]
        bodies.append((b"# Tea\n", {"type": "Document"}))
        previous = ""
        for number, (body, metadata) in enumerate(bodies, 1):
            previous = etag(number, previous, metadata, body)
            assert server.fetch(f"{path}/v{number}").meta["etag"] == previous
        assert server.ask("VERSIONS", path).meta["chain-valid"] == "true"

    @rule("7.3", "chain")
    @rule("7.1", "archive-apart")
    def test_archiving_is_no_link_of_the_chain(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        server.publish(path, b"1")
        server.archive(path)
        server.ask("PUBLISH", path, b"")
        assert server.publish(path, b"2").meta["version"] == "2"
        first = etag(1, "", {"type": "Document"}, b"1")
        assert server.fetch(path).meta["etag"] == etag(2, first, {"type": "Document"}, b"2")

    @rule("7.3", "pruned-chain")
    def test_pruning_changes_no_byte_of_what_is_left(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        server.publish(path, b"1")
        server.publish(path, b"2")
        before = server.fetch(f"{path}/v2").meta["etag"]
        server.publish(path, b"3", retention="2")
        assert server.ask("FETCH", f"{path}/v1").status == "not-found"
        assert server.fetch(f"{path}/v2").meta["etag"] == before
        assert server.ask("VERSIONS", path).meta["chain-valid"] == "true"


class TestTimes:
    @rule("7.1", "modified")
    def test_the_time_of_a_version_never_changes(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        time = server.publish(path, b"1").meta["modified"]
        assert re.fullmatch(r"[0-9]{4}(-[0-9]{2}){2}T([0-9]{2}:){2}[0-9]{2}Z", time)
        server.archive(path)
        server.ask("PUBLISH", path, b"")
        second = server.publish(path, b"2").meta["modified"]
        assert second >= time
        assert server.fetch(f"{path}/v1").meta["modified"] == time
        assert server.fetch(path).meta["modified"] == second
        assert f"/v1) - {time}\n" in server.ask("VERSIONS", path).text

    @rule("7.4", "reads-follow-writes")
    def test_what_was_acknowledged_is_there_at_once(self, server: Server, place: str) -> None:
        other = server.another_connection()
        path = f"{place}/a.md"
        for number in range(1, 6):
            server.publish(path, b"%d" % number)
            raw = other.exchange(server.bytes_of("FETCH", path))
            assert raw.endswith(b"\n---\n%d" % number)
            assert b'total: "%d"\n' % number in other.exchange(server.bytes_of("VERSIONS", path)).replace(
                b"total: %d\n" % number, b'total: "%d"\n' % number
            )
        other.close()
