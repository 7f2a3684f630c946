"""Mark protocol 4.6: APPEND."""

from __future__ import annotations

import pytest

from tests.conformance.server import Server

rule = pytest.mark.rule

MEBIBYTE = 1 << 20


def refused(server: Server, path: str, body: bytes, **metadata: str) -> tuple[str, str]:
    answer = server.ask("APPEND", path, body, **metadata)
    return answer.status, answer.message


def conflict(expected: int, current: int) -> str:
    return (
        "# Version Conflict\n\nThe document has been modified since you last fetched it.\n\n"
        f"Your version: {expected}\nServer version: {current}\n\n"
        "Fetch the latest version and verify whether your append was applied before retrying.\n"
    )


@rule("4.6", "check-order")
def test_checks_come_in_their_order(server: Server, place: str) -> None:
    bad = {"status": "x", "expected_version": "x"}
    path = f"{place}/a.md"
    assert refused(server, f"{place}/a", b"\xff", **bad) == ("bad-request", "publish path must end in .md")
    assert refused(server, path, b"\xff", **bad) == ("bad-request", "document body must be valid UTF-8 text")
    assert refused(server, path, b"", **bad) == ("server-error", "append requires a body")
    assert refused(server, path, b"x", **bad) == ("bad-request", 'metadata key "status" is reserved')
    assert refused(server, path, b"x") == ("bad-request", "APPEND requires expected-version metadata")
    assert refused(server, path, b"x", expected_version="") == (
        "bad-request",
        "APPEND requires expected-version metadata",
    )
    for text in ("x", "0", "-1", "1.0", " 1", "99999999999999999999"):
        expected = ("bad-request", "invalid expected-version for APPEND (must be >= 1)")
        assert refused(server, path, b"x", expected_version=text) == expected


@rule("4.6", "join")
def test_texts_are_joined_with_one_line_feed(server: Server, place: str) -> None:
    path = f"{place}/a.md"
    server.publish(path, b"one")
    server.append(path, b"two\n", expected=1)
    assert server.fetch(path).body == b"one\ntwo\n"
    answer = server.append(path, b"three", expected=2)
    assert set(answer.meta) == {"modified", "version"}
    assert answer.body == b""
    code, specification = b"one\ntwo\nthree", b"one\ntwo\n\nthree"
    body = server.fetch(path).body
    assert body in (code, specification)
    server.reads("only where it lacks" if body == code else "always", of="16: APPEND puts a line feed between")
    server.append(path, b"\nfour", expected=3)
    assert server.fetch(path).body == body + b"\n\nfour"
    assert [server.fetch(f"{path}/v{number}").body[:3] for number in (1, 2, 3)] == [b"one"] * 3


@rule("4.6", "join")
def test_a_body_with_front_matter_of_its_own_stays_whole(server: Server, place: str) -> None:
    path = f"{place}/a.md"
    server.publish(path, b"---\ntitle: mine\n---\n# Raw\n")
    server.append(path, b"more\n", expected=1)
    assert server.fetch(path).body.startswith(b"---\ntitle: mine\n---\n# Raw\n")


@rule("4.6", "conflict")
@pytest.mark.parametrize("expected", [1, 3, 2147483647])
def test_another_version_than_the_newest_is_a_conflict(server: Server, place: str, expected: int) -> None:
    path = f"{place}/a.md"
    server.publish(path, b"1")
    server.publish(path, b"2")
    answer = server.ask("APPEND", path, b"x", expected_version=str(expected))
    assert answer.status == "conflict"
    assert answer.meta == {"your-version": str(expected), "server-version": "2"}
    assert answer.text == conflict(expected, 2)
    assert server.fetch(path).body == b"2"


@rule("4.6", "missing")
def test_nothing_to_append_to(server: Server, place: str) -> None:
    path = f"{place}/a.md"
    assert refused(server, path, b"x", expected_version="1") == ("not-found", f"{path} not found")
    assert server.ask("VERSIONS", path).status == "not-found"


@rule("4.6", "archived")
def test_an_archived_document_takes_no_text(server: Server, place: str) -> None:
    path = f"{place}/a.md"
    server.publish(path, b"1")
    server.publish(path, b"2")
    server.archive(path)
    expected = ("archived", "document is archived; unarchive first")
    assert refused(server, path, b"x", expected_version="2") == expected
    assert server.ask("APPEND", path, b"x", expected_version="1").text == conflict(1, 2)


@rule("4.6", "too-large")
def test_the_joined_text_has_at_most_a_mebibyte(server: Server, place: str) -> None:
    path = f"{place}/a.md"
    line = b"a line of thirty-two characters\n"
    server.publish(path, line * (MEBIBYTE // len(line) - 1))
    assert refused(server, path, line + b"x", expected_version="1") == ("server-error", "content exceeds size limit")
    assert server.append(path, line, expected=1).meta["version"] == "2"


@rule("4.6", "metadata")
def test_metadata_of_the_base_stay_and_the_request_s_come_on_top(server: Server, place: str) -> None:
    path = f"{place}/a.md"
    server.publish(path, b"1", tags="a,b", importance="0.8", title="Tea", type="Note", colour="green")
    server.append(path, b"2", expected=1)
    kept = server.fetch(path).meta
    expected = {"tags": "a,b", "importance": "0.8", "title": "Tea", "type": "Note", "colour": "green"}
    assert {key: kept[key] for key in expected} == expected
    server.append(path, b"3", expected=2, colour="black", tags="c", taste="mild")
    kept = server.fetch(path).meta
    expected |= {"colour": "black", "tags": "c", "taste": "mild"}
    assert {key: kept[key] for key in expected} == expected


@rule("4.6", "merged-limits")
def test_merged_metadata_have_the_same_limits(server: Server, place: str) -> None:
    path = f"{place}/a.md"
    server.publish(path, b"1", **{f"a{n}": "x" for n in range(30)})
    status, message = refused(server, path, b"x", expected_version="1", **{f"b{n}": "x" for n in range(30)})
    assert (status, message) in (
        ("bad-request", "invalid publisher metadata: too many metadata keys (max 50)"),
        ("bad-request", "too many metadata keys (max 50)"),
    )
    status, message = refused(server, path, b"x", expected_version="1", long="tea " * 225)
    assert (status, message) in (
        ("bad-request", "invalid publisher metadata: metadata too large (max 1024 bytes)"),
        ("bad-request", "metadata too large (max 1024 bytes)"),
    )
    assert server.ask("VERSIONS", path).meta["total"] == "1"
