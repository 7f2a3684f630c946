"""Who sees and does what: rights, hidden worlds, and that nobody is ever taken for another."""

from __future__ import annotations

import asyncio
import re
from typing import Any


def word(result: Any) -> str:
    structured = result.structured_content
    return str(structured.get("error") or structured["status"])


async def worlds_of(universe: Any, who: str) -> dict[str, bool]:
    result = await universe.call("mark_worlds", who)
    return {row["world"]: row["writable"] for row in result.structured_content["worlds"]}


async def test_everybody_sees_their_worlds_only(universe: Any) -> None:
    assert await worlds_of(universe, "ann") == {"attic": True, "kitchen": True}
    assert await worlds_of(universe, "bob") == {"attic": False, "garden": True, "kitchen": True}


async def test_the_table_of_worlds_says_where_to_go(universe: Any) -> None:
    result = await universe.call("mark_worlds")
    assert result.structured_content["metadata"] == {"count": "2"}
    assert "| kitchen | mark://kitchen/ | mark://kitchen.team.svc:6309/ | yes |" in result.content[0].text


async def test_a_hidden_world_looks_like_none(universe: Any) -> None:
    hidden = await universe.call("mark_fetch", url="mark://garden/rose.md")
    missing = await universe.call("mark_fetch", url="mark://nowhere/rose.md")
    assert word(hidden) == word(missing) == "no-such-world"
    assert hidden.content[0].text.replace("garden", "X") == missing.content[0].text.replace("nowhere", "X")


async def test_a_person_without_rights_may_look_but_not_write(universe: Any, a_path: str) -> None:
    url = f"mark://attic{a_path}"
    made = await universe.call("mark_publish", "cat", url=url, body="cat's", expected_version=0)
    read = await universe.call("mark_fetch", "bob", url=url)
    writes = [
        await universe.call("mark_publish", "bob", url=url, body="bob's", expected_version=1),
        await universe.call("mark_append", "bob", url=url, body="bob's"),
        await universe.call("mark_archive", "bob", url=url),
    ]
    assert word(made) == "created"
    assert read.structured_content["body"] == "cat's"
    assert [word(result) for result in writes] == ["not-permitted"] * 3
    assert all(result.is_error for result in writes)


async def test_a_writer_of_some_paths_and_operations_keeps_to_them(universe: Any, a_path: str) -> None:
    inside, outside = f"mark://attic/notes{a_path}", f"mark://attic{a_path}"
    for url in (inside, outside):
        await universe.call("mark_publish", "cat", url=url, body="one", expected_version=0)
    assert word(await universe.call("mark_append", "ann", url=inside, body="two")) == "created"
    assert word(await universe.call("mark_append", "ann", url=outside, body="two")) == "not-permitted"
    refused = await universe.call("mark_publish", "ann", url=inside, body="x", expected_version=2)
    assert word(refused) == "not-permitted"


async def test_an_unverified_address_is_nobodys(universe: Any) -> None:
    async with universe.http_client(bearer=universe.bearer("bob", email_verified=False)) as http:
        answer = await http.post("/mcp", json=a_call("mark_worlds"), headers=REVISION)
    names = [row["world"] for row in answer.json()["result"]["structuredContent"]["worlds"]]
    assert names == ["attic", "kitchen"]


REVISION = {"MCP-Protocol-Version": "2025-06-18", "Accept": "application/json, text/event-stream"}


def a_call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }


async def test_two_people_never_share_a_grant(universe: Any, a_path: str) -> None:
    """Many people at once, each writing and reading: every version carries the name of who wrote it."""
    people = [f"person{number}" for number in range(12)]
    folder = a_path.removesuffix(".md")

    async def live(who: str) -> list[str]:
        seen = []
        async with universe.http_client(who) as http:
            for number in range(4):
                url = f"mark://kitchen{folder}/{who}-{number}.md"
                made = await http.post(
                    "/mcp", json=a_call("mark_publish", url=url, body=who, expected_version=0), headers=REVISION
                )
                assert made.json()["result"]["structuredContent"]["status"] == "created"
                read = await http.post("/mcp", json=a_call("mark_fetch", url=url, verbose=True), headers=REVISION)
                seen.append(read.json()["result"]["structuredContent"]["metadata"]["user"])
        return seen

    seen = await asyncio.gather(*(live(who) for who in people))
    assert seen == [[f"{who}@example.com"] * 4 for who in people]


async def test_a_person_and_world_cost_one_grant(universe: Any, a_path: str) -> None:
    def signed() -> float:
        return float(re.search(r"^demarkus_broker_grants_signed_total (\S+)", universe.broker.metrics(), re.M)[1])

    before = signed()
    for _ in range(5):
        await universe.call("mark_fetch", "onlyhere", url=f"mark://kitchen{a_path}")
    assert signed() - before == 1
