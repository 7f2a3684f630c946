"""`mark://<world>/<path>` as tools take it: exact, or refused with what is wrong."""

from __future__ import annotations

import pytest

from demarkus_broker.mcp.tools.address import Address, AddressError, parse


@pytest.mark.parametrize(
    ("text", "world", "path"),
    [
        ("mark://kitchen/notes/tea.md", "kitchen", "/notes/tea.md"),
        ("MARK://kitchen/a.md", "kitchen", "/a.md"),
        ("mark://kitchen", "kitchen", "/"),
        ("mark://kitchen/", "kitchen", "/"),
        ("mark://kitchen/notes/", "kitchen", "/notes"),
        ("mark://kitchen//notes/./tea.md", "kitchen", "/notes/tea.md"),
        ("mark://kitchen/a%20b%23c%3Fd.md", "kitchen", "/a b#c?d.md"),
        ("mark://kitchen/a b.md", "kitchen", "/a b.md"),
        ("mark://kitchen/caf%C3%A9.md", "kitchen", "/café.md"),
        ("mark://kitchen/café.md", "kitchen", "/café.md"),
        ("mark://kitchen/tea.md/v3", "kitchen", "/tea.md/v3"),
        ("mark://a-1/x", "a-1", "/x"),
        ("mark://kitchen/a..b/..c", "kitchen", "/a..b/..c"),
    ],
)
def test_addresses_that_hold(text: str, world: str, path: str) -> None:
    assert parse(text) == Address(world, path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected mark://"),
        ("kitchen/tea.md", "expected mark://"),
        ("/tea.md", "expected mark://"),
        ("https://kitchen/tea.md", "expected mark://"),
        ("mark:/kitchen/tea.md", "expected mark://"),
        (" mark://kitchen/tea.md", "expected mark://"),
        ("mark:///tea.md", "the world's name"),
        ("mark://Kitchen/tea.md", "the world's name"),
        ("mark://kitchen:6309/tea.md", "without a port"),
        ("mark://me@kitchen/tea.md", "the world's name"),
        ("mark://kitchen.team.svc/tea.md", "the world's name"),
        ("mark://[::1]/tea.md", "the world's name"),
        ("mark://kitchen-/tea.md", "the world's name"),
        (f"mark://{'a' * 64}/tea.md", "the world's name"),
        ("mark://kit chen/tea.md", "the world's name"),
        ("mark://kitchen\n/tea.md", "the world's name"),
        ("mark://kitchen/tea.md?v=1", "no query"),
        ("mark://kitchen?", "no query"),
        ("mark://kitchen/tea.md#green", "leave out the part from #"),
        ("mark://kitchen/../secret.md", ".. segment"),
        ("mark://kitchen/a/%2e%2E/secret.md", ".. segment"),
        ("mark://kitchen/a/..", ".. segment"),
        ("mark://kitchen/a%zz.md", "two hex digits"),
        ("mark://kitchen/100%", "two hex digits"),
        ("mark://kitchen/%ff.md", "not UTF-8"),
        ("mark://kitchen/\ud800.md", "without surrogates"),
        ("mark://kitchen/a%0Ab.md", "control character"),
        ("mark://kitchen/a%00b.md", "control character"),
        ("mark://kitchen/a\nb.md", "control character"),
        (f"mark://kitchen/{'a' * 5000}", "too long"),
        (f"mark://kitchen/{'a' * 20000}", "expected mark://"),
    ],
)
def test_addresses_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(AddressError) as refused:
        parse(text)
    assert says in str(refused.value)


@pytest.mark.parametrize("path", ["/", "/a b#c?d.md", "/café.md", "/100%.md", "/a&b=c+d.md", "/tab\there.md"])
def test_a_printed_address_reads_back(path: str) -> None:
    assert parse(str(Address("kitchen", path))) == Address("kitchen", path)


def test_a_section_is_named_only_where_the_tool_takes_one() -> None:
    address = parse("mark://kitchen/tea.md#green%20tea", anchored=True)
    assert address == Address("kitchen", "/tea.md", "green tea")
    assert parse(str(address), anchored=True) == address
    assert parse("mark://kitchen/tea.md#", anchored=True) == Address("kitchen", "/tea.md")
