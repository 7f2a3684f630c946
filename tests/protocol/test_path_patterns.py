"""Path patterns of credentials."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_protocol.patterns import PatternError, check_pattern, literal_prefix_warning, matches, may_contain


@pytest.mark.parametrize(
    ("pattern", "path", "permitted"),
    [
        ("/a.md", "/a.md", True),
        ("/a.md", "/a.mdx", False),
        ("/*", "/a.md", True),
        ("/*", "/", True),
        ("/*", "/a/b.md", False),
        ("/docs/*", "/docs/a.md", True),
        ("/docs/*", "/docs/", True),  # A17
        ("/docs/*", "/docs", False),
        ("/docs/*", "/docs/a/b.md", False),
        ("/docs/*.md", "/docs/a.md", True),
        ("/docs/*.md", "/docs/a.txt", False),
        ("/docs/a?.md", "/docs/ab.md", True),
        ("/docs/a?.md", "/docs/a/.md", False),
        ("/docs/a?.md", "/docs/a\u00e9.md", True),
        ("/docs/[a-c].md", "/docs/b.md", True),
        ("/docs/[a-c].md", "/docs/d.md", False),
        ("/docs/[^a-c].md", "/docs/d.md", True),
        ("/docs/[!a].md", "/docs/!.md", True),
        ("/docs/[c-a].md", "/docs/b.md", False),
        (r"/docs/\*.md", "/docs/*.md", True),
        (r"/docs/\*.md", "/docs/a.md", False),
        (r"/docs/[\]\-].md", "/docs/].md", True),
        ("/*a*b*", "/xaybz", True),
        ("/*a*b*", "/xbya", False),
        ("/**", "/", True),
        ("/**", "/a.md", True),
        ("/**", "/a/b/c.md", True),
        ("/docs/**", "/docs/a.md", True),
        ("/docs/**", "/docs/a/b.md", True),
        ("/docs/**", "/docs/", True),
        ("/docs/**", "/docs", False),
        ("/docs/**", "/docsx/a.md", False),
        ("/docs/**/notes.md", "/docs/notes.md", True),
        ("/docs/**/notes.md", "/docs/a/b/notes.md", True),
        ("/docs/**/notes.md", "/docs/mynotes.md", False),
        ("/docs/**/*.md", "/docs/a/b.md", True),
        ("/docs/**/b/*.md", "/docs/a/b/c.md", True),
        ("/docs/**/b/*.md", "/docs/a/b/c/d.md", False),
        ("/**/notes.md", "/notes.md", True),
        ("/team-*/**", "/team-a/x.md", False),  # A16
        ("/team-*/**", "/team-*/x.md", True),
        ("docs/*", "/docs/a.md", False),
        # The first place where what follows a star fits is taken, as Go takes it, though a class could take a slash.
        ("/*a[^_]", "/xa/", True),
        ("/*[^a]*b", "/x/b", False),
    ],
)
def test_a_17_decisions(pattern: str, path: str, permitted: bool) -> None:
    check_pattern(pattern)
    assert matches(pattern, path) is permitted


@pytest.mark.parametrize(
    "pattern",
    ["/[", "/[a", "/[]", "/[]a]", "/[a-]", "/[-a]", "/[^]", "/a\\", "/[\\", "/**/[", "/**/**", "/docs/**/a/**"],
)
def test_broken_patterns(pattern: str) -> None:
    with pytest.raises(PatternError):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["/a**", "/**a", "/a/**b/c", "**", "/**/", "/a/***"])
def test_any_depth_is_a_segment_of_its_own(pattern: str) -> None:
    with pytest.raises(PatternError):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["/team-*/**", "/team-?/**/a.md", "/[a]/**", "docs/**", "*"])
def test_a_16_a_pattern_that_permits_less_than_it_says_is_warned_about(pattern: str) -> None:  # A16
    assert literal_prefix_warning(pattern) is not None


@pytest.mark.parametrize("pattern", ["/**", "/docs/**", "/docs/**/*.md", "/team-*", "/a/b.md"])
def test_plain_patterns_are_not_warned_about(pattern: str) -> None:
    assert literal_prefix_warning(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "directory", "leads_there"),
    [
        ("/a[^_]*", "/a", True),  # the class takes the slash
        ("/a[^_]*", "/a/b", False),
        ("/**", "/", True),
        ("/**", "/a/b", True),
        ("/docs/**", "/", True),
        ("/docs/**", "/docs", True),
        ("/docs/**", "/docs/a", True),
        ("/docs/**", "/doc", False),
        ("/docs/**", "/docsx", False),
        ("/docs/api/**", "/docs", True),
        ("/docs/api/**", "/docs/app", False),
        ("/docs/**/a.md", "/docs/x/y", True),
        ("/docs/*", "/", True),
        ("/docs/*", "/docs", True),
        ("/docs/*", "/docs/a", False),
        ("/a/*/c.md", "/a/x", True),
        ("/a/*/c.md", "/b", False),
        ("/a/*/c.md", "/a/x/y", False),
        ("/a/[b-d]/*", "/a/c", True),
        ("/a/[b-d]/*", "/a/e", False),
        (r"/a\*/b", "/a*", True),
        ("/a/[/]x/b", "/a", True),
        ("/a.md", "/", True),
        ("/a.md", "/a.md", False),
    ],
)
def test_directories_on_the_way(pattern: str, directory: str, leads_there: bool) -> None:
    assert may_contain(pattern, directory) is leads_there


segments = st.text(alphabet="ab*?.", min_size=1, max_size=3)


@given(
    st.lists(segments, min_size=1, max_size=3), st.lists(st.text(alphabet="ab.", min_size=1, max_size=3), max_size=4)
)
def test_directories_of_permitted_paths_are_on_the_way(pattern_segments: list[str], path_segments: list[str]) -> None:
    pattern, path = "/" + "/".join(pattern_segments), "/" + "/".join(path_segments)
    if "**" in pattern or not matches(pattern, path):
        return
    for depth in range(len(path_segments)):
        assert may_contain(pattern, "/" + "/".join(path_segments[:depth]))


@given(st.text(alphabet="ab/*?", max_size=8), st.text(alphabet="ab/", max_size=8))
def test_wildcards_mean_what_a_regular_expression_says(pattern: str, path: str) -> None:
    if "**" in pattern:
        return
    expression = re.escape(pattern).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    assert matches(pattern, path) is (re.fullmatch(expression, path) is not None)


@given(st.text(alphabet="ab/*?[]^-\\", max_size=10), st.text(alphabet="ab/]", max_size=8))
def test_any_text_is_a_pattern_or_a_pattern_error(pattern: str, path: str) -> None:
    try:
        check_pattern(pattern)
    except PatternError:
        return
    matches(pattern, path)
    may_contain(pattern, "/" + path.strip("/"))


def test_many_wildcards_cost_no_more_than_their_number() -> None:
    """Backtracking over these would not end; the limit is far above what the work takes."""
    started = time.process_time()
    assert not matches("/" + "*a" * 40 + "b", "/" + "a" * 4000)
    assert not matches("/**/" + "*a" * 20 + "b", "/a" * 2000)
    assert time.process_time() - started < 10
