"""The tools end to end: the official MCP client, the broker, QUIC with grants, a world."""

from __future__ import annotations

from typing import Any


def text_of(result: Any) -> str:
    return str(result.content[0].text)


async def test_a_document_is_published_fetched_and_its_history_shown(universe: Any, a_path: str) -> None:
    url = f"mark://kitchen{a_path}"
    async with universe.client() as client:
        created = await client.call_tool(
            "mark_publish",
            {"url": url, "body": "# Tea\n", "expected_version": 0, "metadata": {"tags": "drinks, hot", "title": "Tea"}},
        )
        fetched = await client.call_tool("mark_fetch", {"url": url})
        verbose = await client.call_tool("mark_fetch", {"url": url, "verbose": True})
        history = await client.call_tool("mark_versions", {"url": url})
    assert not created.is_error
    assert created.structured_content["status"] == "created"
    assert created.structured_content["metadata"]["version"] == "1"
    assert fetched.structured_content == {
        "status": "ok",
        "metadata": {"version": "1", "title": "Tea"},
        "body": "# Tea\n",
    }
    assert text_of(fetched) == "status: ok\nversion: 1\ntitle: Tea\n\n# Tea\n"
    everything = verbose.structured_content["metadata"]
    assert everything["tags"] == "drinks,hot"
    assert everything["user"] == "ann@example.com"
    assert list(everything)[:3] == ["version", "modified", "etag"]
    assert history.structured_content["metadata"]["chain-valid"] == "true"
    assert "[v1]" in history.structured_content["body"]
