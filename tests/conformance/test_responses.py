"""Mark protocol 3: the form of answers, the order of keys, quoting, Markdown escapes."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest

from tests.conformance.answers import entries, rows
from tests.conformance.server import Server, eventually

rule = pytest.mark.rule

DOUBLE_QUOTED = [
    "", "true", "True", "TRUE", "false", "null", "Null", "NULL", "~", "y", "Y", "n", "yes", "Yes", "NO", "on", "Off",
    "0.7", "3", "-3", "+3", "007", "0x1F", "0o17", "0b101", "1_000", "5.", ".5", "1e3", "-1.5E-3", ".inf", "-.INF",
    ".nan",
    "2026-01-01T00:00:00Z", "2026-01-01", "2026-1-2", "2026-01-01 10:00:00", "12:30", "1:20:30", "190:20:30",
]  # fmt: skip
"""Text that a YAML reader would take for something else."""

NUMBERS = re.compile(r"[-+]?[0-9][0-9_.]*")

ESCAPED = {
    "a\tb": r'"a\tb"',
    "\u0001": r'"\x01"',
    "a\u0000b": r'"a\0b"',
    "\u001b": r'"\e"',
    "\u007f": r'"\x7F"',
    "a\u0085b": r'"a\Nb"',
    "a\u0091b": r'"a\x91b"',
    "\ufeffa": r'"\uFEFFa"',
    "😀 hi": r'"\U0001F600 hi"',
    "\U00010000": r'"\U00010000"',
}

SINGLE_QUOTED = [
    " a", "a ", "---", "--- a", "...", "...a", "#a", ",a", "[x]", "]a", "{a", "}a", "&a", "*a", "!a", "|", ">a", "%a",
    "@a", "`a", '"a', "- a", "-", "? a", "?", ": a", ":", "a: b", "a:", "a #b", "'a", "' ",
]  # fmt: skip

PLAIN = [
    "alpha,wire", "a, b", "a]", "-a", "?a", ":a", "a#b", "=", "<<", "2026-01", "7c1f:17", "1e", "nan", "Infinity",
    "inf",
    "it's", 'a"b', "a:b", "é", "tRUE", "yES", "0x", "1.2.3", "a b", "--a", "..a", "a!", "x" * 100, "›",
]  # fmt: skip


NAMES = [
    "(a)", "[b]", "*c*", "_d_", "`e`", "~f~", "#g", "|h|", "\\i", "a&b+c=d@e$f:g-h.i~j_k", "é", "😀", "%41", "a,b;c!",
    "a b", "<x>", '"q"',
]  # fmt: skip


class TestForm:
    @rule("3", "block-form")
    @rule("3", "nothing-behind")
    def test_a_block_then_the_body_to_the_end_of_the_stream(self, server: Server, place: str) -> None:
        body = b"# Tea\n\nno line feed at its end"
        server.publish(f"{place}/a.md", body)
        answer = server.fetch(f"{place}/a.md")
        assert answer.raw == b"---\n" + "\n".join(answer.lines).encode() + b"\n---\n" + body

    @rule("3", "error-body")
    def test_the_body_of_an_error_begins_with_an_empty_line(self, server: Server, place: str) -> None:
        assert server.ask("FETCH", f"{place}/a.md").raw == (
            f"---\nstatus: not-found\n---\n\n# Not found\n\n{place}/a.md not found\n".encode()
        )
        assert server.ask("PUBLISH", f"{place}/a.md", b"x", role="unknown").raw == (
            b"---\nstatus: unauthorized\n---\n\n# Unauthorized\n\nauthentication required\n"
        )

    @rule("3", "error-body")
    def test_conflicts_and_health_begin_with_their_heading(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md")
        assert server.ask("PUBLISH", f"{place}/a.md", b"x", expected_version="0").text.startswith(
            "# Version Conflict\n"
        )
        assert server.ask("FETCH", "/health").text.startswith("# Health Check\n")

    @rule("3", "no-metadata-in-errors")
    def test_errors_carry_their_status_alone(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md")
        server.archive(f"{place}/a.md")
        for verb, path, body in (
            ("FETCH", "/no/such", b""),
            ("FETCH", f"{place}/a.md", b""),
            ("PUBLISH", f"{place}/a.md", b"x"),
            ("PUBLISH", f"{place}/a", b"x"),
            ("APPEND", f"{place}/a.md", b""),
            ("LOOKUP", place, b""),
        ):
            answer = server.ask(verb, path, body, role="full" if verb != "FETCH" else None)
            assert answer.lines == (f"status: {answer.status}",)
            assert answer.message


class TestKeys:
    @rule("3.1", "sorted-keys")
    def test_the_status_stands_among_the_other_keys(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md", importance="0.8", tags="a,b", zebra="x")
        lines = server.fetch(f"{place}/a.md").lines
        keys = [line.partition(":")[0] for line in lines]
        expected = ["content-hash", "etag", "importance", "modified", "status", "tags", "type", "version", "zebra"]
        first = ["status", *(key for key in expected if key != "status")]
        assert keys in (expected, first)
        server.reads("sorted" if keys == expected else "in front", of="16: where the status stands")

    @rule("3.1", "numbers-in-keys")
    def test_numbers_in_keys_are_ordered_as_numbers(self, server: Server, place: str) -> None:
        ordered = ["-x", "1x", "a-1", "a1", "a2", "a10", "rel9", "rel10", "v1a", "v1-a", "v12", "x-", "x0", "xa", "xaa"]
        server.publish(f"{place}/a.md", **dict.fromkeys(reversed(ordered), "tea"))
        lines = server.fetch(f"{place}/a.md").lines
        keys = [line.partition(":")[0].strip("\"'") for line in lines]
        found = [key for key in keys if key in ordered]
        assert found in (ordered, sorted(ordered))
        server.reads("as numbers" if found == ordered else "as text", of="3.1: how numbers in keys are ordered")


class TestQuoting:
    """One document holds the values of a test, under keys that do not matter."""

    @staticmethod
    def written(server: Server, place: str, values: list[str]) -> list[str]:
        """How the server writes these values."""
        written: list[str] = []
        for start in range(0, len(values), 20):
            some = {f"k-{index}-x": value for index, value in enumerate(values[start : start + 20])}
            path = f"{place}/{start}.md"
            server.publish(path, **some)
            answer = server.fetch(path)
            assert {key: answer.meta[key] for key in some} == some
            found = dict(line.split(": ", 1) if ": " in line else (line[:-1], "") for line in answer.lines)
            written += [found[key] for key in some]
        return written

    @rule("3.2", "double-quotes")
    def test_what_yaml_takes_for_something_else_is_in_double_quotes(self, server: Server, place: str) -> None:
        expected = [f'"{value}"' for value in DOUBLE_QUOTED]
        written = self.written(server, place, DOUBLE_QUOTED)
        bare = [text for text in written if NUMBERS.fullmatch(text)]
        server.reads("bare" if bare else "quoted", of="16: how numbers are written")
        assert [f'"{text}"' if text in bare else text for text in written] == expected

    @rule("3.2", "escapes")
    def test_what_can_not_be_seen_is_escaped(self, server: Server, place: str) -> None:
        assert self.written(server, place, list(ESCAPED)) == list(ESCAPED.values())

    @rule("3.2", "single-quotes")
    def test_what_can_not_be_plain_is_in_single_quotes(self, server: Server, place: str) -> None:
        expected = ["'" + value.replace("'", "''") + "'" for value in SINGLE_QUOTED]
        assert self.written(server, place, SINGLE_QUOTED) == expected

    @rule("3.2", "single-quotes")
    def test_unicode_line_separators_read_back(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md", word="a\u2028b", other="a\u2029b")
        meta = server.fetch(f"{place}/a.md").meta
        assert (meta["word"], meta["other"]) == ("a\u2028b", "a\u2029b")

    @rule("3.2", "plain")
    def test_all_else_is_plain(self, server: Server, place: str) -> None:
        assert self.written(server, place, PLAIN) == PLAIN

    @rule("3.2", "quoted-keys")
    def test_keys_are_quoted_by_the_same_rules(self, server: Server, place: str) -> None:
        keys = '"on": a\n"y": b\n"null": c\n"9": d\n"1-2": e\n'
        sent = f"PUBLISH {place}/a.md\n---\nauth: {server.token('full')}\n{keys}---\nx"
        assert server.send(sent.encode()).status == "created"
        lines = server.fetch(f"{place}/a.md").lines
        assert {'"on": a', '"y": b', '"null": c', "1-2: e"} <= set(lines)
        assert '"9": d' in lines or "9: d" in lines

    @rule("3.2", "binary")
    def test_a_query_that_is_no_text_never_comes_back_in_metadata(self, server: Server) -> None:
        """Nothing that a server defines can hold bytes that are no UTF-8: paths are in bodies only."""
        answer = server.send(
            server.bytes_of("FETCH", "/x\udcff.md".encode("utf-8", "surrogateescape").decode("latin-1"))
        )
        assert answer.status in ("not-found", "bad-request")
        raw = server.send(b"FETCH /x\xff\xfe.md\n")
        assert raw.status in ("not-found", "bad-request", "unauthorized", "not-permitted")
        assert raw.lines == (f"status: {raw.status}",)


class TestMarkdown:
    @rule("3.3", "text-escape")
    @rule("3.3", "link-escape")
    def test_names_are_escaped_in_listings(self, server: Server, place: str) -> None:
        server.publish_all({f"{place}/{name}.md": b"x" for name in NAMES})
        answer = server.ask("LIST", place)
        assert sorted(entries(answer, place)) == sorted(f"{name}.md" for name in NAMES)
        expected = {
            "- [\\(a\\).md](%28a%29.md)",
            "- [\\[b\\].md](%5Bb%5D.md)",
            "- [\\*c\\*.md](%2Ac%2A.md)",
            "- [\\_d\\_.md](_d_.md)",
            "- [\\`e\\`.md](%60e%60.md)",
            "- [\\~f\\~.md](~f~.md)",
            "- [\\#g.md](%23g.md)",
            "- [\\|h\\|.md](%7Ch%7C.md)",
            "- [\\\\i.md](%5Ci.md)",
            "- [a&b+c=d@e$f:g-h.i\\~j\\_k.md](a&b+c=d@e$f:g-h.i~j_k.md)",
            "- [é.md](%C3%A9.md)",
            "- [😀.md](%F0%9F%98%80.md)",
            "- [%41.md](%2541.md)",
            "- [a,b;c!.md](a%2Cb%3Bc%21.md)",
            "- [a b.md](a%20b.md)",
            "- [<x>.md](%3Cx%3E.md)",
            '- ["q".md](%22q%22.md)',
        }
        assert set(answer.text.split("\n")[3:-1]) == expected

    @rule("3.3", "text-escape")
    @rule("3.3", "link-escape")
    def test_paths_are_escaped_in_headings_and_links(self, server: Server, place: str) -> None:
        directory = f"{place}/a_b [c]"
        server.publish(f"{directory}/d*.md")
        assert entries(server.ask("LIST", directory), directory) == ["d*.md"]
        lines = server.ask("VERSIONS", f"{directory}/d*.md").text.split("\n")
        assert lines[1] == "# Version History: " + place.replace("_", "\\_") + "/a\\_b \\[c\\]/d\\*.md"
        found = re.fullmatch(r"- \[v1\]\((.*)/v1\) - .*", lines[3])
        assert found
        assert found[1] in (
            f"{place}/a_b [c]/d*.md".replace("/", "%2F")
            .replace(" ", "%20")
            .replace("[", "%5B")
            .replace("]", "%5D")
            .replace("*", "%2A"),
            place + "/a_b%20%5Bc%5D/d%2A.md",
        )
        assert unquote(found[1]) == f"{directory}/d*.md"
        server.reads("as %2F" if "%2F" in found[1] else "bare", of="16: slashes in the links of VERSIONS")

    @rule("3.3", "cell-escape")
    def test_cells_are_escaped_in_tables(self, server: Server, place: str) -> None:
        title = "a|b *c* [d](e) #f `g` ~h \\i"
        server.publish(f"{place}/a|b_c#d.md", title=title, tags="x|y, z*")
        answer = eventually(
            "a row", lambda: (found := server.ask("LOOKUP", place, query="z*")).meta["matches"] == "1" and found
        )
        row = rows(answer, "z*", place)[0]
        assert (row.path, row.title, row.tags) == (f"{place}/a|b_c#d.md", title, "x|y, z*")
        line = answer.text.split("\n")[5]
        assert "/a\\|b\\_c\\#d.md | 0.50 | a\\|b \\*c\\* \\[d\\]\\(e\\) \\#f \\`g\\` \\~h \\\\i | x\\|y, z\\* |" in line
