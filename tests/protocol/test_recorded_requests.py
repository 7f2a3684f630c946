"""The requests that the Go server and its clients recorded are read, refused and written as they were meant."""

import json
from pathlib import Path
from typing import Any

import pytest

from mark_protocol.request import Request, RequestError, Verb, encode_request, parse_request
from mark_protocol.response import encode_response, parse_response
from mark_protocol.tokens import TokenSet, parse_tokens, render_entry

GOLDEN = Path(__file__).parent.parent / "interop" / "golden"
AT_PARSE = ("bad-request: bad request", "server-error: could not read request")


def recorded(*names: str) -> list[dict[str, Any]]:
    lines = [line for name in names for line in (GOLDEN / f"{name}.jsonl").read_text().splitlines()]
    return [exchange for exchange in map(json.loads, lines) if "request_hex" in exchange]


def sent(exchange: dict[str, Any]) -> bytes:
    filling: bytes = bytes([exchange.get("fill", 0)]) * exchange.get("fill_count", 0)
    return bytes.fromhex(exchange["request_hex"]) + filling


# What does not end is a matter of the transport.
WHOLE = [exchange for exchange in recorded("grammar", "documents") if exchange["request_end"] == "fin"]


@pytest.mark.parametrize("exchange", WHOLE, ids=lambda exchange: exchange["name"])
def test_request_is_refused_only_where_it_must_be(exchange: dict[str, Any]) -> None:
    if exchange["expect"] in AT_PARSE:
        with pytest.raises(RequestError) as caught:
            parse_request(sent(exchange))
        assert f"{caught.value.status}: {caught.value.message}" == exchange["expect"]
    else:
        parse_request(sent(exchange))


@pytest.mark.parametrize("exchange", recorded("client-requests"), ids=lambda exchange: exchange["name"])
def test_clients_bytes_are_our_bytes(exchange: dict[str, Any]) -> None:
    assert encode_request(parse_request(sent(exchange))) == sent(exchange)


def test_clients_front_matter_without_a_guard_is_metadata() -> None:
    exchange = next(e for e in recorded("client-requests") if e["name"] == "cli-publish-frontmatter-no-auth-1")
    assert parse_request(sent(exchange)) == Request(Verb.PUBLISH, "/a.md", {"title": "x"}, b"# Tea\n")


@pytest.mark.parametrize("exchange", recorded("grammar", "documents"), ids=lambda exchange: exchange["name"])
def test_servers_bytes_are_our_bytes(exchange: dict[str, Any]) -> None:
    answer = bytes.fromhex(exchange["response_hex"])
    assert encode_response(parse_response(answer)) == answer


def test_token_file_of_the_recording_is_written_alike() -> None:
    text = (GOLDEN / "tokens.toml").read_text()
    tokens = parse_tokens(text, source="tokens.toml")
    assert isinstance(tokens, TokenSet)
    assert "".join(map(render_entry, tokens.tokens)) == text
    found = tokens.find("lantern-admin")
    assert found is not None
    assert found.label == "admin"
