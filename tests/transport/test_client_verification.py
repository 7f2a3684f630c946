"""Histories checked from outside: what a server that lies, or lost something, can't hide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from mark_protocol.client.client import ClientError, MarkClient
from mark_protocol.client.pool import Pool
from mark_protocol.client.verification import History, verify
from mark_protocol.client.walk import Refused, documents
from mark_protocol.listings import VersionLine, render_versions
from mark_protocol.request import parse_request
from mark_protocol.response import Response, encode_response
from mark_protocol.versions import content_hash, encode_version, etag

PATH = "/tea.md"


@dataclass
class Liar:
    """A server with one document of three versions; `lies` replace answers by request line."""

    first: int = 1
    told: dict[str, str] = field(default_factory=dict)
    lies: dict[str, Callable[[Response], Response]] = field(default_factory=dict)

    def answer(self, data: bytes) -> tuple[bytes, ...]:
        request = parse_request(data)
        line = f"{request.verb} {request.path}"
        response = self._answers().get(line) or Response.error("not-found", f"{request.path} not found")
        return (encode_response(self.lies.get(line, lambda truth: truth)(response)),)

    def _answers(self) -> Mapping[str, Response]:
        metadata = {"tags": "a,b", "type": "Document", "importance": "0.8"}
        answers: dict[str, Response] = {}
        previous: str | None = None
        for number in (1, 2, 3):
            body = f"# Tea {number}\n".encode()
            previous = etag(encode_version(number, previous, metadata, body))
            keys = {"version": str(number), "etag": previous, "content-hash": content_hash(body)}
            if number >= self.first:
                answers[f"FETCH {PATH}/v{number}"] = Response("ok", {**metadata, **keys}, body)
        numbers = range(3, self.first - 1, -1)
        lines = [VersionLine(number, "2026-11-30T09:00:00Z") for number in numbers]
        keys = {"total": str(len(lines)), "current": "3", "chain-valid": "true", **self.told}
        answers[f"VERSIONS {PATH}"] = Response("ok", keys, render_versions(PATH, lines))
        return answers


@pytest.fixture
def checked(kit: Any, trust: Any) -> Callable[..., Any]:
    """Checks the document of a liar: `await checked(liar)`."""

    async def check(liar: Liar, work: Callable[[MarkClient], Any] = lambda client: verify(client, PATH)) -> Any:
        server = await kit.listener(answer=liar.answer)
        pool = Pool([tuple(server.listener.address)], server_name="localhost", trust=trust, size=1)
        try:
            return await work(MarkClient(pool))
        finally:
            await pool.close()

    return check


async def test_an_honest_history_is_intact(checked: Callable[..., Any]) -> None:
    found = await checked(Liar())
    assert (found.versions, found.findings, found.unproven) == ([1, 2, 3], [], [])


def body(text: bytes) -> Callable[[Response], Response]:
    """Another body, with its own content-hash."""
    return lambda truth: Response("ok", {**truth.metadata, "content-hash": content_hash(text)}, text)


def key(name: str, value: str) -> Callable[[Response], Response]:
    return lambda truth: Response("ok", {**truth.metadata, name: value}, truth.body)


@pytest.mark.parametrize(
    ("line", "lie", "findings"),
    [
        (
            f"FETCH {PATH}/v3",
            body(b"# Poison\n"),
            ["v3: body, metadata and the version before do not make up its etag"],
        ),
        (f"FETCH {PATH}/v1", key("tags", "a"), ["v1: body, metadata and the version before do not make up its etag"]),
        (
            f"FETCH {PATH}/v2",
            key("etag", "0" * 64),
            [f"v{number}: body, metadata and the version before do not make up its etag" for number in (2, 3)],
        ),
        (f"FETCH {PATH}/v1", key("content-hash", "sha256-0"), ["v1: its body is not that of its content-hash"]),
        (f"FETCH {PATH}/v3", key("version", "2"), ["v3: the server says it is version 2"]),
        (
            f"FETCH {PATH}/v3",
            lambda truth: Response.error("server-error", "stored data is damaged"),
            ["v3: it is listed and can't be fetched: server-error: stored data is damaged"],
        ),
        (f"VERSIONS {PATH}", key("total", "4"), ["the list of versions does not fit total and current"]),
        (f"VERSIONS {PATH}", key("chain-valid", "false"), ["the server says that the chain of its versions is broken"]),
    ],
)
async def test_a_lie_is_found(
    checked: Callable[..., Any], line: str, lie: Callable[[Response], Response], findings: list[str]
) -> None:
    assert (await checked(Liar(lies={line: lie}))).findings == findings


async def test_what_is_left_of_a_pruned_history_is_proven_where_its_link_is_told(checked: Callable[..., Any]) -> None:
    found: History = await checked(Liar(first=2))
    assert (found.versions, found.findings, found.unproven) == ([2, 3], [], [2])
    first = Liar()._answers()[f"FETCH {PATH}/v1"].metadata["etag"]
    found = await checked(Liar(first=2, told={"predecessor-hash": f"sha256-{first}"}))
    assert (found.findings, found.unproven) == ([], [])
    found = await checked(Liar(first=2, told={"predecessor-hash": f"sha256-{'0' * 64}"}))
    assert found.findings == ["v2: body, metadata and the version before do not make up its etag"]


async def test_a_refusal_is_told_with_its_status(checked: Callable[..., Any]) -> None:
    refusal = Response.error("unauthorized", "authentication required")
    with pytest.raises(Refused, match=f"VERSIONS {PATH}: unauthorized: authentication required"):
        await checked(Liar(lies={f"VERSIONS {PATH}": lambda truth: refusal}))


async def test_a_listing_that_goes_round_in_circles_ends(checked: Callable[..., Any]) -> None:
    page = Response("ok", {"complete": "false", "next-cursor": "again"}, b"- [a.md](a.md)\n")

    async def walk(client: MarkClient) -> list[str]:
        return [path async for path in documents(client, "/")]

    with pytest.raises(ClientError, match="its pages are not in order"):
        await checked(Liar(lies={"LIST /": lambda truth: page}), walk)
