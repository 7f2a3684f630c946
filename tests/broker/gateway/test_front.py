"""What HTTP clients meet before MCP: challenge, metadata, preflight, Host, Origin, limits (field reports F6 to F12)."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx2
import pytest

PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HEADERS = {"MCP-Protocol-Version": "2025-06-18", "Accept": "application/json, text/event-stream"}


async def post(universe: Any, path: str = "/mcp", *, who: str | None = "ann", bearer: str = "", **options: Any) -> Any:
    headers = HEADERS | options.pop("headers", {})
    if "content" not in options:
        options.setdefault("json", PING)
    async with universe.http_client(who, bearer=bearer) as http:
        return await http.post(path, headers=headers, **options)


async def test_f8_without_a_bearer_the_challenge_names_the_metadata(universe: Any) -> None:
    answer = await post(universe, who=None)
    assert answer.status_code == 401
    expected = f'Bearer resource_metadata="{universe.url}/.well-known/oauth-protected-resource/mcp"'
    assert answer.headers.get_list("www-authenticate") == [expected]


@pytest.mark.parametrize(
    "authorization",
    ["Bearer x", "bearer a.b.c", "Bearer", "Basic YTpi", "x"],
)
async def test_a_refused_bearer_is_called_invalid(universe: Any, authorization: str) -> None:
    answer = await post(universe, who=None, headers={"Authorization": authorization})
    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert 'resource_metadata="' in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://other.example"},
        {"aud": "https://other.example/mcp"},
        {"exp": 1},
        {"iat": 4102444800, "exp": 4102445800},
        {"sub": ""},
    ],
    ids=str,
)
async def test_bearers_that_are_not_for_here_or_now_are_refused(universe: Any, claims: dict[str, Any]) -> None:
    answer = await post(universe, bearer=universe.bearer(**claims))
    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


async def test_two_bearers_are_none(universe: Any) -> None:
    """What a proxy and we would read differently is refused."""
    tokens = [("Authorization", f"Bearer {universe.bearer(who)}") for who in ("ann", "bob")]
    async with httpx2.AsyncClient(base_url=universe.url, trust_env=False) as http:
        answer = await http.post("/mcp", json=PING, headers=[*HEADERS.items(), *tokens])
    assert answer.status_code == 401


async def test_a_bearer_in_the_query_is_none(universe: Any) -> None:
    answer = await post(universe, f"/mcp?access_token={universe.bearer()}", who=None)
    assert answer.status_code == 401


@pytest.mark.parametrize(("path", "resource"), [("", ""), ("/", ""), ("/mcp", "/mcp"), ("/mcp/", "/mcp")])
async def test_f6_f7_each_metadata_document_names_its_own_resource(universe: Any, path: str, resource: str) -> None:
    async with universe.http_client(None) as http:
        answer = await http.get(f"/.well-known/oauth-protected-resource{path}")
    assert answer.status_code == 200
    assert answer.json()["resource"] == universe.url + resource
    assert answer.json()["bearer_methods_supported"] == ["header"]
    assert "authorization_servers" not in answer.json()
    assert answer.headers["access-control-allow-origin"] == "*"


async def test_f9_a_preflight_is_answered_before_the_bearer(universe: Any) -> None:
    origin = "http://localhost:6274"
    preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    async with universe.http_client(None) as http:
        for path in ("/mcp", "/mcp/", "/.well-known/oauth-protected-resource/mcp"):
            answer = await http.options(path, headers=preflight)
            assert answer.status_code == 204, path
            assert answer.headers["access-control-allow-origin"] in (origin, "*")
            assert "POST" in answer.headers["access-control-allow-methods"]
            for name in ("authorization", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"):
                assert name in answer.headers["access-control-allow-headers"].lower()


@pytest.mark.parametrize("who", [None, "ann"])
async def test_f9_pages_may_read_what_clients_need(universe: Any, who: str | None) -> None:
    answer = await post(universe, who=who, headers={"Origin": "http://localhost:6274"})
    assert answer.headers["access-control-allow-origin"] == "http://localhost:6274"
    exposed = answer.headers["access-control-expose-headers"].lower()
    assert all(name in exposed for name in ("www-authenticate", "mcp-session-id", "mcp-protocol-version"))
    assert answer.headers["vary"] == "Origin"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_f10_with_and_without_a_slash_without_a_redirect(universe: Any, path: str) -> None:
    answer = await post(universe, path)
    assert answer.status_code == 200
    assert {"mark_fetch", "mark_publish"} <= {tool["name"] for tool in answer.json()["result"]["tools"]}


async def test_f12_what_a_world_will_not_do_is_not_a_fault_of_the_bearer(universe: Any) -> None:
    """A 401 means the bearer and nothing else; clients answer it with a new sign-in."""
    call = {"name": "mark_fetch", "arguments": {"url": "mark://nowhere/x.md"}}
    answer = await post(universe, json=PING | {"method": "tools/call", "params": call})
    assert answer.status_code == 200
    assert answer.json()["result"]["isError"] is True


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
async def test_a_rebound_name_is_misdirected(universe: Any, host: str) -> None:
    for path in ("/mcp", "/.well-known/oauth-protected-resource"):
        answer = await post(universe, path, headers={"Host": host.format(port=universe.port)})
        assert answer.status_code == 421


async def test_every_name_of_loopback_is_ours(universe: Any) -> None:
    answer = await post(universe, headers={"Host": f"localhost:{universe.port}"})
    assert answer.status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example", "file://"])
async def test_pages_of_strangers_may_not_call(universe: Any, origin: str) -> None:
    answer = await post(universe, headers={"Origin": origin})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH"])
async def test_there_are_no_sessions_and_no_streams(universe: Any, method: str) -> None:
    async with universe.http_client() as http:
        answer = await http.request(method, "/mcp", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 405
    assert "POST" in answer.headers["allow"]


async def test_methods_come_after_the_bearer(universe: Any) -> None:
    """Clients that probe with GET find the challenge."""
    async with universe.http_client(None) as http:
        assert (await http.get("/mcp")).status_code == 401


@pytest.mark.parametrize("path", ["/", "/mcp/x", "/mcpx", "/token", "/register", "/readyz", "/metrics", "//mcp"])
async def test_nothing_else_is_served(universe: Any, path: str) -> None:
    async with universe.http_client() as http:
        answer = await http.get(f"{universe.url}{path}")
    assert answer.status_code == 404


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"\xff\xfe", 400),
        (b'"text"', 400),
        (b"[" * 5000, 400),
        (b'{"jsonrpc": "2.0", "id": 1}', 400),
        (b"x" * ((4 << 20) + 1), 413),
    ],
    ids=["empty", "cut", "list", "not utf-8", "text", "deep", "no method", "too large"],
)
@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_broken_bodies_are_the_clients_fault(universe: Any, content: bytes, status: int, revision: str) -> None:
    headers = {"Content-Type": "application/json", "MCP-Protocol-Version": revision}
    answer = await post(universe, content=content, headers=headers)
    assert answer.status_code == status


async def test_a_large_body_is_not_waited_for_without_a_bearer(universe: Any) -> None:
    answer = await post(universe, who=None, content=b"x" * (5 << 20), headers={"Content-Type": "application/json"})
    assert answer.status_code == 401


async def test_only_json_is_taken(universe: Any) -> None:
    answer = await post(universe, content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code in (400, 415)


async def test_a_body_that_never_ends_holds_nobody_else_up(universe: Any) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", universe.port)
    writer.write(
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{universe.port}\r\nAuthorization: Bearer {universe.bearer()}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{".encode()
    )
    await writer.drain()
    assert (await post(universe)).status_code == 200
    writer.close()
    await writer.wait_closed()


async def test_refusals_are_counted_by_reason(universe: Any) -> None:
    await post(universe, who=None)
    assert re.search(r'demarkus_broker_refusals_total\{reason="no-bearer"\} [1-9]', universe.broker.metrics())


async def test_the_gateway_does_not_say_what_it_is_made_of(universe: Any) -> None:
    assert "server" not in (await post(universe)).headers
