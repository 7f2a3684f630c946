"""Every revision of MCP: the handshake ones and the stateless one, with the official client and by hand."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from demarkus_broker.mcp.tools.table import TOOLS

ACCEPT = {"Accept": "application/json, text/event-stream"}


def a_request(method: str, params: dict[str, Any], *, number: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@pytest.mark.parametrize("revision", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_a_handshake_and_a_call_by_hand(universe: Any, revision: str) -> None:
    hello = {
        "protocolVersion": revision,
        "capabilities": {},
        "clientInfo": {"name": "by-hand", "version": "1"},
    }
    async with universe.http_client("ann", **ACCEPT) as http:
        began = (await http.post("/mcp", json=a_request("initialize", hello))).json()["result"]
        headers = {"MCP-Protocol-Version": revision}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await http.post("/mcp", json=ready, headers=headers)).status_code == 202
        listed = await http.post("/mcp", json=a_request("tools/list", {}), headers=headers)
        called = await http.post(
            "/mcp", json=a_request("tools/call", {"name": "mark_worlds", "arguments": {}}), headers=headers
        )
    assert began["protocolVersion"] == revision
    assert began["serverInfo"]["name"] == "demarkus"
    assert "expected_version" in began["instructions"]
    assert listed.headers["content-type"].startswith("application/json")
    assert "mcp-session-id" not in listed.headers
    assert [tool["name"] for tool in listed.json()["result"]["tools"]] == list(TOOLS)
    assert called.json()["result"]["structuredContent"]["metadata"]["count"] == "2"


@pytest.mark.parametrize("revision", MODERN_PROTOCOL_VERSIONS)
async def test_a_stateless_call_by_hand(universe: Any, a_path: str, revision: str) -> None:
    url = f"mark://kitchen{a_path}"
    meta = {
        "io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientInfo": {"name": "by-hand", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }

    async def call(http: Any, tool: str, **arguments: Any) -> Any:
        headers = {"MCP-Protocol-Version": revision, "Mcp-Method": "tools/call", "Mcp-Name": tool}
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        answer = await http.post("/mcp", json=a_request("tools/call", params), headers=headers)
        return answer.json()["result"]["structuredContent"]

    async with universe.http_client("ann", **ACCEPT) as http:
        made = await call(http, "mark_publish", url=url, body="x", expected_version=0)
        read = await call(http, "mark_fetch", url=url, verbose=True)
    assert made["status"] == "created"
    assert read["metadata"]["agent"] == "by-hand"


@pytest.mark.parametrize("mode", ["legacy", "auto", *MODERN_PROTOCOL_VERSIONS])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_the_official_client_in_every_mode(universe: Any, mode: str, path: str) -> None:
    async with universe.client(mode=mode, path=path) as client:
        tools = (await client.list_tools()).tools
        worlds = await client.call_tool("mark_worlds", {})
    assert {tool.name for tool in tools} >= {"mark_fetch", "mark_publish", "mark_worlds"}
    assert worlds.structured_content["status"] == "ok"


async def test_a_revision_nobody_knows_is_refused(universe: Any) -> None:
    headers = {"MCP-Protocol-Version": "1999-01-01"} | ACCEPT
    async with universe.http_client("ann", **headers) as http:
        answer = await http.post("/mcp", json=a_request("tools/list", {}))
    assert answer.status_code == 400


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_tool_that_is_not_in_the_table_is_refused(universe: Any, mode: str) -> None:
    async with universe.client(mode=mode) as client:
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("mark_erase", {"url": "mark://kitchen/"})


async def test_the_tools_describe_themselves(universe: Any) -> None:
    async with universe.client() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    publish = tools["mark_publish"]
    assert set(publish.input_schema["required"]) == {"url", "body", "expected_version"}
    assert publish.input_schema["additionalProperties"] is False
    assert publish.annotations.read_only_hint is False
    assert tools["mark_fetch"].annotations.read_only_hint is True
    assert tools["mark_archive"].annotations.destructive_hint is True
    for tool in tools.values():
        assert tool.description
        assert all(
            "description" in member or name == "page_size" for name, member in tool.input_schema["properties"].items()
        )


async def test_what_the_tools_cost_a_session_stays_small(universe: Any) -> None:
    """Every session of every agent reads all schemas and descriptions."""
    async with universe.http_client("ann", **{"MCP-Protocol-Version": "2025-11-25"}, **ACCEPT) as http:
        answer = await http.post("/mcp", json=a_request("tools/list", {}))
    assert len(answer.content) < 850 * len(TOOLS)
