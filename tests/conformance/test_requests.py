"""Mark protocol 1.1 and 2: streams, the request line, the metadata block, the body, canonical paths."""

from __future__ import annotations

import pytest

from tests.conformance.answers import entries, parse
from tests.conformance.server import Server, request
from tests.conformance.wire import exchange_all

rule = pytest.mark.rule

BAD_REQUEST = b"---\nstatus: bad-request\n---\n\n# Bad request\n\nbad request\n"
UNREADABLE = b"---\nstatus: server-error\n---\n\n# Server error\n\ncould not read request\n"
HEALTH = b"---\nstatus: ok\n---\n# Health Check\n\nServer is healthy.\n"
MEBIBYTE = 1 << 20


def not_found(path: str) -> bytes:
    return f"---\nstatus: not-found\n---\n\n# Not found\n\n{path} not found\n".encode()


class TestStreams:
    @rule("1", "alpn")
    def test_only_mark_is_spoken(self, server: Server) -> None:
        with pytest.raises(ConnectionError):
            server.another_connection(alpn="conformance-nonsense")

    @rule("1", "answers-after-fin")
    def test_nothing_is_answered_before_the_client_has_closed_its_side(self, server: Server) -> None:
        connection = server.connection()
        begun = connection.open(b"FETCH /health\n", end=False)
        # The second request is answered while the first one is still open: time enough to answer that, too.
        assert parse(connection.exchange(b"FETCH /health\n")).status == "ok"
        assert begun.so_far == b""
        assert begun.finish() == HEALTH

    @rule("1", "one-request-a-stream")
    def test_streams_of_a_connection_are_answered_each_by_itself(self, server: Server, place: str) -> None:
        paths = [f"{place}/{number}.md" for number in range(20)]
        answers = exchange_all(server.connection(), [server.bytes_of("FETCH", path) for path in paths])
        assert answers == [not_found(path) for path in paths]


class TestRequestLine:
    @rule("2.1", "verb-then-path")
    @pytest.mark.parametrize("name", ["a b.md", "a  b.md", "a .md", "a%20b.md", "a?x=1.md", "a#b.md", "a+b.md"])
    def test_everything_behind_the_first_space_is_the_path(self, server: Server, place: str, name: str) -> None:
        path = f"{place}/{name}"
        assert server.ask("FETCH", path).raw == not_found(path)
        server.publish(path, name.encode())
        assert server.fetch(path).body == name.encode()
        assert entries(server.ask("LIST", place), place) == [name]

    @rule("2.1", "no-decoding")
    def test_percent_signs_query_and_fragment_mean_nothing(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a b.md")
        for name in ("a%20b.md", "a b.md?x", "a b.md#tea"):
            assert server.ask("FETCH", f"{place}/{name}").raw == not_found(f"{place}/{name}")

    @rule("2.1", "carriage-return")
    def test_one_carriage_return_before_the_line_feed_is_dropped(self, server: Server) -> None:
        assert server.send(b"FETCH /health\r\n").raw == HEALTH
        assert server.send(b"FETCH /health\r\r\n").raw == BAD_REQUEST

    @rule("2.1", "last-line")
    def test_a_line_may_end_with_the_stream(self, server: Server) -> None:
        assert server.send(b"FETCH /health").raw == HEALTH

    @rule("2.1", "verbs")
    @pytest.mark.parametrize(
        "line",
        [
            b"fetch /health", b"Fetch /health", b"GET /health", b"FETCH", b"FETCH/health", b" /health",
            b" FETCH /health", b"FETCHX /health", b"", b"/health", b"FETCH\t/health",
        ],
    )  # fmt: skip
    def test_what_is_no_verb_and_a_space_is_refused(self, server: Server, line: bytes) -> None:
        assert server.send(line + b"\n").raw == BAD_REQUEST

    @rule("2.1", "verbs")
    @pytest.mark.parametrize("verb", ["FETCH", "LIST", "VERSIONS", "PUBLISH", "ARCHIVE", "APPEND", "LOOKUP", "WATCH"])
    def test_all_eight_verbs_are_known(self, server: Server, verb: str) -> None:
        """A path that no verb finds, so that none acts."""
        assert server.send(f"{verb} /../x\n".encode()).raw == not_found("/../x")

    @rule("2.1", "path-begins-with-slash")
    @pytest.mark.parametrize("path", [b"", b"health", b" /health", b"mark://localhost/health"])
    def test_a_path_begins_with_a_slash(self, server: Server, path: bytes) -> None:
        assert server.send(b"FETCH " + path + b"\n").raw == BAD_REQUEST

    @rule("2.1", "path-length")
    def test_a_path_has_at_most_4087_bytes(self, server: Server) -> None:
        longest = "/" + "/".join(["x" * 100] * 41)[: 4087 - 1]
        assert len(longest) == 4087
        role = None if server.profile.reads == "private" else ""
        for verb in ("FETCH", "LIST", "VERSIONS"):
            assert server.ask(verb, longest, role=role).raw == not_found(longest)
        assert server.send(f"FETCH {longest}x\n".encode()).raw == BAD_REQUEST
        # The limit counts bytes, not characters.
        assert server.send(b"FETCH /" + "é".encode() * 2044 + b"\n").raw == BAD_REQUEST

    @rule("2.1", "path-controls")
    @pytest.mark.parametrize("byte", [0, 1, 8, 11, 12, 13, 27, 31, 127])
    def test_a_path_has_no_control_characters(self, server: Server, byte: int) -> None:
        assert server.send(b"FETCH /a" + bytes([byte]) + b"b.md\n").raw == BAD_REQUEST

    @rule("2.1", "path-controls")
    @pytest.mark.parametrize("character", ["\t", "\u0080", "\u009f", "\u00a0", "é", "\u2028", "😀"])
    def test_a_tab_and_what_is_above_127_may_be_in_a_path(self, server: Server, place: str, character: str) -> None:
        path = f"{place}/a{character}b.md"
        assert server.ask("FETCH", path).raw == not_found(path)

    @rule("2.1", "line-length")
    def test_a_line_has_at_most_4096_bytes(self, server: Server) -> None:
        assert server.send(b"FETCH " + b"x" * 4090 + b"\n").raw == BAD_REQUEST
        assert server.send(b"FETCH " + b"x" * 4091 + b"\n").raw == UNREADABLE
        assert server.send(b"x" * 100_000).raw == UNREADABLE

    @rule("2.1", "empty-stream")
    def test_a_stream_without_a_byte_is_no_request(self, server: Server) -> None:
        assert server.send(b"").raw == UNREADABLE

    @rule("2.1", "body-length")
    def test_a_body_has_at_most_a_mebibyte(self, server: Server, place: str) -> None:
        line = b"a line of thirty-two characters\n"
        body = line * (MEBIBYTE // len(line))
        path = f"{place}/long.md"
        server.publish(path, body)
        assert server.fetch(path).body == body
        too_long = server.bytes_of("PUBLISH", path, body + b"x")
        assert server.send(too_long).raw == UNREADABLE
        assert server.fetch(path).meta["version"] == "1"

    @rule("2.1", "block-length")
    def test_a_block_has_at_most_65536_bytes(self, server: Server) -> None:
        def block_of(size: int) -> bytes:
            return b"FETCH /health\n---\nx: " + b"y" * (size - 3) + b"\n---\n"

        assert server.send(block_of(65536)).raw == HEALTH
        assert server.send(block_of(65537)).raw == UNREADABLE

    @rule("2.1", "payload-length")
    def test_what_is_behind_the_line_has_a_limit_of_its_own(self, server: Server) -> None:
        assert server.send(b"FETCH /health\n" + b"x" * (65536 + MEBIBYTE + 65)).raw == UNREADABLE


class TestBlock:
    @rule("2.2", "fence")
    def test_a_fence_with_a_carriage_return_begins_no_block(self, server: Server, place: str) -> None:
        token = server.token("full")
        sent = f"PUBLISH {place}/a.md\n---\r\nauth: {token}\n---\n# Tea\n"
        assert server.send(sent.encode()).status == "unauthorized"
        assert server.send(b"FETCH /health\n---\r\n[\n---\n").raw == HEALTH

    @rule("2.2", "fence")
    @pytest.mark.parametrize("body", [b"--- \n[", b" ---\n[", b"----\n[", b"---", b"\n---\n["])
    def test_only_three_dashes_right_behind_the_line_begin_a_block(self, server: Server, body: bytes) -> None:
        assert server.send(b"FETCH /health\n" + body).raw == HEALTH

    @rule("2.2", "closing-fence")
    def test_a_block_may_end_with_the_stream(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        server.publish(path)
        etag = server.fetch(path).meta["etag"]
        head = server.bytes_of("FETCH", path, if_none_match=etag)
        assert head.endswith(b"\n---\n")
        assert server.send(head[:-1]).raw == b"---\nstatus: not-modified\n---\n"

    @rule("2.2", "not-closed")
    @pytest.mark.parametrize("rest", [b"---\n", b"---\nx: y\n", b"---\nx: y\n----\n", b"---\n---\n", b"---\n---"])
    def test_a_block_that_is_not_closed_is_refused(self, server: Server, rest: bytes) -> None:
        assert server.send(b"FETCH /health\n" + rest).raw == BAD_REQUEST

    @rule("2.2", "empty-block")
    def test_an_empty_block_has_an_empty_line(self, server: Server) -> None:
        assert server.send(b"FETCH /health\n---\n\n---\n").raw == HEALTH

    @rule("2.2", "empty-block")
    def test_two_fences_in_a_row_do_not_close(self, server: Server, place: str) -> None:
        """What follows them, up to the next fence, is the block."""
        path = f"{place}/a.md"
        server.publish(path)
        fetched = server.fetch(path)
        head = server.bytes_of("FETCH", path, if_none_match=fetched.meta["etag"])
        swallowed = head.replace(b"\n---\n", b"\n---\n---\n", 1)
        assert server.send(swallowed).status == "not-modified"

    @rule("2.2", "own-front-matter")
    @pytest.mark.parametrize("block", ["auth: {token}", '"auth": "{token}"\nx: y'])
    def test_a_body_keeps_the_front_matter_behind_the_block(self, server: Server, place: str, block: str) -> None:
        body = b"---\ntitle: mine\n---\n# Raw\n"
        head = f"PUBLISH {place}/raw.md\n---\n{block.format(token=server.token('full'))}\n---\n"
        assert server.send(head.encode() + body).status == "created"
        fetched = server.fetch(f"{place}/raw.md")
        assert fetched.body == body
        assert "title" not in fetched.meta

    @rule("2.2", "own-front-matter")
    def test_behind_an_empty_block_the_rest_is_body(self, server: Server) -> None:
        assert server.send(b"FETCH /health\n---\n\n---\n---\n[\n---\n").raw == HEALTH

    @rule("2.2", "scalars-are-text")
    def test_every_scalar_is_taken_as_its_text(self, server: Server, place: str) -> None:
        values = {
            "a": ("1", "1"),
            "b": ("true", "true"),
            "c": ("2026-01-01", "2026-01-01"),
            "d": ("0x1F", "0x1F"),
            "e": ("1_000", "1_000"),
            "f": ("12:30", "12:30"),
            "g": ("", ""),
            "h": ("~", ""),
            "i": ("null", ""),
            "j": ('"a \\u00e9 b"', "a é b"),
            "k": ("'it''s'", "it's"),
            "l": ("plain: no", None),
            "m": ("a #comment", "a"),
            "n": ("|-\n    tea", "tea"),
            "o": (">-\n    tea\n    pot", "tea pot"),
            "p": ("&anchor tea", "tea"),
            "q": ("*anchor", "tea"),
            "r": ("007", "007"),
            "s": ("1e3", "1e3"),
            "t": (".inf", ".inf"),
        }
        sent = "".join(f"{key}: {text}\n" for key, (text, read) in values.items() if read is not None)
        head = f"PUBLISH {place}/a.md\n---\nauth: {server.token('full')}\n{sent}---\n# Tea\n"
        answer = server.send(head.encode())
        assert answer.status == "created", answer
        meta = server.fetch(f"{place}/a.md").meta
        expected = {key: read for key, (_, read) in values.items() if read is not None}
        assert {key: meta[key] for key in expected} == expected

    @rule("2.2", "yaml")
    @pytest.mark.parametrize(
        "block",
        [
            "# only a comment",
            "",
            "   ",
            "{if-none-match: ETAG}",
            '{"if-none-match": "ETAG", x: y}',
            "if-none-match: ETAG # behind",
            "if-none-match:   ETAG   ",
            "if-none-match:\n  ETAG",
            "x: &e ETAG\nif-none-match: *e",
            "<<: {if-none-match: ETAG}",
            "<<: [{if-none-match: ETAG}, {x: y}]",
            "if-none-match: ETAG\nnull: x",
            "if-none-match: ETAG\n~: x",
            "if-none-match: ETAG\n...\nif-none-match: x",
            "%YAML 1.1\n--- {if-none-match: ETAG}",
            "? if-none-match\n: ETAG",
        ],
    )
    def test_all_of_a_flat_map_that_yaml_has_is_read(self, server: Server, place: str, block: str) -> None:
        path = f"{place}/a.md"
        server.publish(path)
        token = f"auth: {server.token('full')}\n" if server.profile.reads == "private" else ""
        if token:
            server.cannot("where every read needs a token, each block would need one, too")
        etag = server.fetch(path).meta["etag"]
        sent = f"FETCH {path}\n---\n{block.replace('ETAG', etag)}\n---\n".encode()
        assert server.send(sent).status == ("not-modified" if "ETAG" in block else "ok")

    @rule("2.2", "not-a-flat-map")
    @pytest.mark.parametrize(
        "block",
        [
            b"- a",
            b"[a, b]",
            b"x: [a]",
            b"x:\n  - a",
            b"x: {y: z}",
            b"x:\n  y: z",
            b"x: a\nx: b",
            b"{x: a, x: b}",
            b"x:y",
            b"tea",
            b"x: @a",
            b"x: `a",
            b"x: %a",
            b"x: 'a",
            b'x: "a',
            b"x: *nowhere",
            b"\tx: a",
            b"x:\n\ty: a",
            b"x: a: b",
            b"x: \xff\xfe",
            b"x: a\xc3",
            b"[a: b]: c",
        ],
    )
    def test_a_block_that_is_no_flat_map_is_refused(self, server: Server, block: bytes) -> None:
        assert server.send(b"FETCH /health\n---\n" + block + b"\n---\n").raw == BAD_REQUEST

    @rule("2.2", "unknown-keys")
    def test_keys_of_reads_are_not_looked_at(self, server: Server) -> None:
        sent = 'FETCH /health\n---\nFoo_Bar: x\nversion: "1"\nstatus: no\n"é b": y\npage-size: none\n---\n'
        assert server.send(sent.encode()).raw == HEALTH


class TestBody:
    @rule("2.3", "raw-bytes")
    @pytest.mark.parametrize(
        "body",
        [
            b"x",
            b"\n",
            b" \r\n\r",
            b"# Tea\r\n",
            b"\x00\x01",
            "é\u2028\ufeff😀".encode(),
            b"---\n",
            b"---",
            b"\n---\n\n",
        ],
    )
    def test_a_body_is_kept_byte_for_byte(self, server: Server, place: str, body: bytes) -> None:
        server.publish(f"{place}/a.md", body)
        assert server.fetch(f"{place}/a.md").body == body

    @rule("2.3", "ignored")
    def test_verbs_that_have_no_use_for_a_body_ignore_it(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        server.publish(path)
        for verb in ("FETCH", "VERSIONS"):
            assert server.ask(verb, path, b"\xff\x00 body").raw == server.ask(verb, path).raw
        assert server.ask("LIST", place, b"body").raw == server.ask("LIST", place).raw
        assert server.ask("LOOKUP", place, b"body", query="*").status == "ok"
        assert server.ask("ARCHIVE", path, b"\xff\x00 body").status == "ok"

    @rule("2.3", "ignored")
    def test_archive_refuses_a_body_that_is_too_long_all_the_same(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md")
        assert server.ask("ARCHIVE", f"{place}/a.md", b"x" * (MEBIBYTE + 1)).raw == UNREADABLE
        assert server.fetch(f"{place}/a.md").status == "ok"


class TestCanonicalPaths:
    @rule("2.4", "parent-segments")
    @pytest.mark.parametrize("verb", ["FETCH", "LIST", "VERSIONS", "PUBLISH", "ARCHIVE", "APPEND", "LOOKUP", "WATCH"])
    def test_a_segment_of_two_dots_finds_nothing_before_all_else(self, server: Server, place: str, verb: str) -> None:
        """No token, no query, no body, and the path as it was sent in the message."""
        for path in (f"{place}/../a.md", f"{place}//..", "/..", "/../sha256-" + "0" * 64):
            assert server.send(f"{verb} {path}\n".encode()).raw == not_found(path)

    @rule("2.4", "parent-segments")
    def test_two_dots_may_be_a_part_of_a_name(self, server: Server, place: str) -> None:
        for name in ("..b.md", "b...md", "...md"):
            server.publish(f"{place}/{name}", name.encode())
            assert server.fetch(f"{place}/{name}").body == name.encode()

    @rule("2.4", "canonical-form")
    def test_slashes_and_single_dots_are_cleaned_away(self, server: Server, place: str) -> None:
        server.publish(f"{place}//sub/.//a.md/", b"# Tea\n")
        for path in (f"{place}/sub/a.md", f"/{place}///sub/a.md", f"{place}/./sub/././a.md", f"{place}/sub/a.md/"):
            assert server.fetch(path).body == b"# Tea\n"
            assert server.ask("VERSIONS", path).text.startswith("\n# Version History: " + place)
        assert server.send(b"FETCH //./health/.\n").raw == HEALTH

    @rule("2.4", "canonical-form")
    def test_messages_and_headings_have_the_canonical_path(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md")
        assert server.ask("FETCH", f"/{place}//./none.md/").raw == not_found(f"{place}/none.md")
        assert entries(server.ask("LIST", f"{place}/.//"), place) == ["a.md"]
        assert server.ask("LIST", f"{place}/.//").raw == server.ask("LIST", place).raw
        assert server.ask("LOOKUP", f"{place}//", query="*").raw == server.ask("LOOKUP", place, query="*").raw
        assert server.ask("VERSIONS", f"{place}//a.md/").raw == server.ask("VERSIONS", f"{place}/a.md").raw

    @rule("2.4", "root")
    def test_a_path_of_slashes_and_dots_is_the_root(self, server: Server) -> None:
        role = None if server.profile.reads == "private" else ""
        listed = server.ask("LIST", "/", role=role, page_size="1")
        assert listed.status == "ok"
        for path in ("//", "/.", "/./", "///.//"):
            assert server.ask("LIST", path, role=role, page_size="1").raw == listed.raw
        assert request("LIST", "//", page_size="1") == b'LIST //\n---\npage-size: "1"\n---\n'
