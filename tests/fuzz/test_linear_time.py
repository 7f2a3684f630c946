"""What comes from strangers costs as much as it is long, and not the square of it."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable

import pytest

from mark_protocol import (
    changes,
    cursors,
    frontmatter,
    grants,
    links,
    listings,
    lookups,
    metadata,
    outline,
    paths,
    patterns,
    request,
    tokens,
    urls,
    versions,
)

SHORT, TIMES = 2_500, 4
LINEAR, ALLOWED = TIMES, 10.0
"""Four times the input takes four times the steps; with a square in it, it would be sixteen times."""
REFUSALS = (
    changes.MalformedBlock,
    cursors.CursorError,
    frontmatter.BlockError,
    grants.GrantError,
    listings.ListingError,
    metadata.MetadataError,
    request.RequestError,
    tokens.TokenFileError,
    urls.URLError,
)
TABLE = b"| Path | Importance | Title | Tags |\n|-|\n"


def a_drop_at_a_time(data: bytes) -> None:
    reader = changes.BlockReader()
    for at in range(len(data)):
        list(reader.feed(data[at : at + 1]))


def token_file(text: str) -> object:
    return tokens.parse_tokens(text, source="tokens.toml")


def grant(text: str) -> object:
    return grants.verify_grant(text, grants.KeySet(), audience="a/b", now=0)


def list_cursor(text: str) -> object:
    return cursors.decode_cursor(text, "/", include_archived=False)


CASES: dict[str, tuple[Callable[..., object], Callable[[int], object]]] = {
    "a request of near fences": (request.parse_request, lambda n: b"FETCH /\n---\n" + b"\n--" * n),
    "a block of keys": (frontmatter.decode_block, lambda n: b"".join(b"k%d: v\n" % i for i in range(n // 8))),
    "a block of odd keys": (frontmatter.decode_block, lambda n: b"".join(b"k.%d: v\n" % i for i in range(n // 8))),
    "a block of brackets": (frontmatter.decode_block, lambda n: b"null: " + b"[" * n),
    "a block of quotes": (frontmatter.decode_block, lambda n: b"k: '" + b"''" * n),
    "a block of words that end badly": (frontmatter.decode_block, lambda n: b"k: " + b"a " * n + b": "),
    "a block of spaces": (frontmatter.decode_block, lambda n: b"k: a" + b" " * n + b"\xc3\xa9"),
    "a block of comments": (frontmatter.decode_block, lambda n: b"#\n" * n),
    "a block of anchors": (
        frontmatter.decode_block,
        lambda n: b"".join(b"k%d: &a%d v\n" % (i, i) for i in range(n // 8)),
    ),
    "a block of merges": (frontmatter.decode_block, lambda n: b"<<: [" + b",".join([b"{a: b}"] * (n // 8)) + b"]"),
    "a block of complex keys": (frontmatter.decode_block, lambda n: b"? " * n),
    "a value of digits": (lambda text: frontmatter.encode_block({"k": text}), lambda n: "1" + ":1" * n + "x"),
    "a value of underscores": (lambda text: frontmatter.encode_block({"k": text}), lambda n: "1" + "_" * n + "x"),
    "a value of line ends": (lambda text: frontmatter.encode_block({"k": text}), lambda n: "a\n" * n + " \n"),
    "keys of zeros": (lambda text: frontmatter.encode_block({text + "1": "", text + "2": ""}), lambda n: "1" + "0" * n),
    "a watch that drips": (a_drop_at_a_time, lambda n: b"---\na: " + b"b\n" * (n // 10)),
    "a URL of escapes": (urls.parse_url, lambda n: "mark://h/" + "%41" * n),
    "a URL of hosts": (urls.parse_url, lambda n: "mark://" + "a." * n + "["),
    "a reference upwards": (lambda text: urls.resolve(urls.MarkURL("h"), text), lambda n: "../" * n),
    "a path of dots": (paths.clean, lambda n: "/./a/.." * n),
    "tags": (lambda text: metadata.publisher_metadata({"tags": text}), lambda n: ", " * n),
    "a stored header": (versions.parse_version, lambda n: b"---\nversion: 1\n" + b"meta.k: v\n" * n + b"---\n"),
    "a token file of patterns": (
        token_file,
        lambda n: f'[tokens.a]\nhash = "sha256-{"0" * 64}"\npaths = ["/{"*a" * n}"]\n',
    ),
    "a grant": (grant, lambda n: "eyJ" + "a" * n + ".."),
    "a path under stars": (lambda path: patterns.matches("/" + "*a" * 100 + "b", path), lambda n: "/" + "a" * n),
    "a path under any depth": (lambda path: patterns.matches("/**/" + "a/" * 50 + "b", path), lambda n: "/" + "a/" * n),
    "a directory under stars": (lambda path: patterns.may_contain("/*a*b*[^c]", path), lambda n: "/" + "a" * n),
    "a table of pipes": (lookups.parse_matches, lambda n: TABLE + b"|" * n),
    "a table of escapes": (lookups.parse_matches, lambda n: TABLE + b"| /a | 0.5 | " + b"\\|" * n + b" | |"),
    "a listing of brackets": (listings.parse_list, lambda n: b"- [" * n),
    "a cursor": (list_cursor, lambda n: "A" * n),
    "a heading of escapes": (outline.sections, lambda n: b"# " + rb"\!" * n),
    "a heading of stars": (outline.sections, lambda n: b"# " + b"*a " * n),
    "a heading of underscores": (outline.sections, lambda n: b"# " + b"_a " * n),
    "a heading of comments": (outline.sections, lambda n: b"# " + b"<!--" * n),
    "a heading of ticks": (
        outline.sections,
        lambda n: b"# " + b"".join(b"`" * (i % 50 + 1) + b"a" for i in range(n // 8)),
    ),
    "a heading of links": (outline.sections, lambda n: b"# " + b"[a](b " * n),
    "items in items": (outline.sections, lambda n: b"- " * n + b"a"),
    "nearly a break": (outline.sections, lambda n: b"* " * n + b"x"),
    "headings that are alike": (outline.sections, lambda n: b"# a\n" * n),
    "a paragraph that becomes a heading": (outline.sections, lambda n: b"a\n" * n + b"==="),
    "links that do not end": (links.links, lambda n: b"[a](" * n),
    "links in links": (links.links, lambda n: b"[[a]" * n),
    "definitions": (links.links, lambda n: b"[a]: b\n" * n),
}


def steps(call: Callable[..., object], given: object) -> float:
    """CPU time of this thread, of the best of four tries; a refusal counts as an answer."""
    best = float("inf")
    gc.disable()
    try:
        for _ in range(4):
            began = time.thread_time()
            with contextlib.suppress(*REFUSALS):
                call(given)
            best = min(best, time.thread_time() - began)
    finally:
        gc.enable()
    return best


@pytest.mark.parametrize("name", CASES)
def test_time_is_linear_in(name):
    call, make = CASES[name]
    short, long = steps(call, make(SHORT)), steps(call, make(SHORT * TIMES))
    assert long < max(short, 2e-4) * ALLOWED, f"{TIMES} times the input took {long / short:.1f} times the time"
