"""Mark protocol 4.3: VERSIONS."""

from __future__ import annotations

import pytest

from tests.conformance.server import Server, content_hash

rule = pytest.mark.rule


@rule("4.3", "form")
@rule("4.3", "counts")
def test_newest_first_each_with_its_time(server: Server, place: str) -> None:
    path = f"{place}/tea.md"
    for body in (b"one", b"two", b"three"):
        server.publish(path, body)
    times = [server.fetch(f"{path}/v{number}").meta["modified"] for number in (3, 2, 1)]
    answer = server.ask("VERSIONS", path)
    encoded, plain = path.replace("/", "%2F"), path
    expected = [
        f"\n# Version History: {path}\n\n"
        + "".join(f"- [v{n}]({link}/v{n}) - {time}\n" for n, time in zip((3, 2, 1), times, strict=True))
        for link in (encoded, plain)
    ]
    assert answer.text in expected
    assert {key: answer.meta[key] for key in ("total", "current", "chain-valid")} == {
        "total": "3",
        "current": "3",
        "chain-valid": "true",
    }
    assert "chain-error" not in answer.meta


@rule("4.3", "archived")
def test_an_archived_document_has_its_history(server: Server, place: str) -> None:
    path = f"{place}/tea.md"
    server.publish(path, b"one")
    server.publish(path, b"two")
    before = server.ask("VERSIONS", path)
    server.archive(path)
    after = server.ask("VERSIONS", path)
    assert (after.status, after.body, after.meta["total"]) == ("ok", before.body, "2")


@rule("4.3", "not-found")
def test_what_has_no_version_is_not_found(server: Server, place: str) -> None:
    body = f"# Tea of {place}\n".encode()
    server.publish(f"{place}/a.md", body)
    for path in (f"{place}/none.md", place, f"{place}/a.md/v1", "/", f"/{content_hash(body)}"):
        answer = server.ask("VERSIONS", path)
        assert (answer.status, answer.message) == ("not-found", f"{path} not found")


@rule("4.3", "authorised")
def test_it_needs_the_right_to_read(server: Server) -> None:
    place = server.place("vault")
    server.publish(f"{place}/a.md", role="vault")
    assert server.ask("VERSIONS", f"{place}/a.md", role="reader").meta["total"] == "1"
    for path in (f"{place}/a.md", f"{place}/none.md"):
        assert server.ask("VERSIONS", path, role="").message == "authentication required"
        assert server.ask("VERSIONS", path, role="star").message == "insufficient permissions"
