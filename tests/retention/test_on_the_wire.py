"""Quotas, floors and the key `retention` as a writer meets them."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

TOKENS = (("writer", "/**", ("publish",)), ("admin", "/**", ("publish", "prune")))


@pytest.fixture
def world(start_world: Callable[..., Any], token_file: Callable[..., str]) -> Callable[..., Any]:
    """Starts a world with a token that may prune, `admin`, and one that may not, `writer`."""

    def start(**fields: Any) -> Any:
        return start_world(tokens=token_file(*TOKENS), reads="public", **fields)

    return start


def message(response: Any) -> str:
    """The text of an error's body."""
    return response.body.decode().splitlines()[-1]


async def told(world: Any, verb: str, path: str, body: bytes = b"", **metadata: str) -> tuple[str, str]:
    response = await world.request(verb, path, body, **{"auth": "writer", **metadata})
    return response.status, message(response) if response.body else ""


async def test_quota_is_not_permitted_and_only_for_what_grows(
    world: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    kettles = world(limits={"rate": {"perSecond": 0}, "maxDocuments": 2})
    assert (await told(kettles, "PUBLISH", "/a.md", b"1"))[0] == "created"
    assert (await told(kettles, "PUBLISH", "/b.md", b"1"))[0] == "created"
    assert await told(kettles, "PUBLISH", "/c.md", b"1") == ("not-permitted", "quota exceeded: maxDocuments")
    assert (await told(kettles, "ARCHIVE", "/a.md"))[0] == "ok"
    assert await told(kettles, "PUBLISH", "/c.md", b"1") == ("not-permitted", "quota exceeded: maxDocuments")
    assert (await told(kettles, "PUBLISH", "/b.md", b"2"))[0] == "created"
    assert (await told(kettles, "FETCH", "/c.md"))[0] == "not-found"
    # Another limit takes its place while the world runs.
    kettles.write_config(limits={"rate": {"perSecond": 0}, "maxBytes": 400})
    digest = sha256((kettles.folder / "world.yaml").read_bytes()).hexdigest()
    wait_until("the new limit", lambda: kettles.health()["loaded"]["config"] == digest)
    assert await told(kettles, "PUBLISH", "/c.md", b"x" * 400) == ("not-permitted", "quota exceeded: maxBytes")
    assert await told(kettles, "APPEND", "/b.md", b"x" * 400, expected_version="2") == (
        "not-permitted",
        "quota exceeded: maxBytes",
    )
    assert (await told(kettles, "PUBLISH", "/a.md"))[0] == "ok"  # unarchived
    assert (await told(kettles, "FETCH", "/b.md"))[0] == "ok"


@pytest.mark.parametrize("verb", ["PUBLISH", "APPEND"])
async def test_a_retention_key_without_the_right_is_refused_or_only_stored(
    world: Callable[..., Any], verb: str
) -> None:
    """A2."""
    for key, status in (("refuse", "not-permitted"), ("ignore", "created")):
        kettles = world(retention={"key": key})
        await told(kettles, "PUBLISH", "/a.md", b"1")
        answer = await told(kettles, verb, "/a.md", b"2", retention="1", expected_version="1")
        assert answer[0] == status
        assert key == "ignore" or answer[1] == "retention needs the prune right"
        assert (await told(kettles, "FETCH", "/a.md/v1"))[0] == "ok"
        stored = (await kettles.request("FETCH", "/a.md")).metadata.get("retention")
        assert stored == ("1" if key == "ignore" else None)
        # With the right it acts in both.
        newest = (await kettles.request("VERSIONS", "/a.md")).metadata["current"]
        assert (await told(kettles, "PUBLISH", "/a.md", b"3", auth="admin", retention="1"))[0] == "created"
        assert (await told(kettles, "FETCH", f"/a.md/v{newest}"))[0] == "not-found"


async def test_floors_and_holds_refuse_a_key_that_would_act(world: Callable[..., Any]) -> None:
    kettles = world(
        retention={"keepVersions": 2, "holds": [{"paths": ["/contracts/**"], "reason": "case 12"}]},
        history="compatible",
    )
    for path in ("/a.md", "/contracts/b.md"):
        for number in (1, 2, 3):
            await told(kettles, "PUBLISH", path, b"%d" % number)
    assert await told(kettles, "PUBLISH", "/a.md", b"4", retention="1") == (
        "not-permitted",
        "retention: the newest 2 versions of /a.md have to be kept (retention.keepVersions)",
    )
    assert (await told(kettles, "PUBLISH", "/a.md", b"4", retention="2"))[0] == "created"
    assert (await told(kettles, "FETCH", "/a.md/v2"))[0] == "not-found"
    assert await told(kettles, "PUBLISH", "/contracts/b.md", b"4", retention="2") == (
        "not-permitted",
        "retention: /contracts/b.md is on hold: case 12",
    )
    # A key that takes nothing away yet is stored.
    assert (await told(kettles, "PUBLISH", "/contracts/b.md", b"4", retention="9"))[0] == "created"
