"""VERSIONS: the history of a document and its chain."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from mark_protocol.response import Response


async def test_the_history_is_listed_newest_first(a_world: Callable[..., Any]) -> None:
    world = await a_world(compatible=True)
    await world.publish("/notes/a b[1].md", b"one")
    await world.publish("/notes/a b[1].md", b"two")
    response = await world.ask("VERSIONS", "/notes//a b[1].md/")
    assert response == Response(
        "ok",
        {"total": "2", "current": "2", "chain-valid": "true"},
        b"\n# Version History: /notes/a b\\[1\\].md\n\n"
        b"- [v2](%2Fnotes%2Fa%20b%5B1%5D.md/v2) - 2027-01-15T08:00:02Z\n"
        b"- [v1](%2Fnotes%2Fa%20b%5B1%5D.md/v1) - 2027-01-15T08:00:01Z\n",
    )


async def test_archived_documents_have_a_history(a_world: Callable[..., Any]) -> None:
    world = await a_world()
    await world.publish("/a.md")
    await world.ask("ARCHIVE", "/a.md")
    assert (await world.ask("VERSIONS", "/a.md")).metadata["total"] == "1"


@pytest.mark.parametrize("path", ["/none.md", "/notes", "/", "/sha256-" + "0" * 64, "/notes/a.md/v1"])
async def test_what_is_no_document_has_none(a_world: Callable[..., Any], path: str) -> None:
    world = await a_world()
    await world.publish("/notes/a.md")
    response = await world.ask("VERSIONS", path)
    assert response == Response("not-found", {}, f"\n# Not found\n\n{path} not found\n".encode())


async def test_a_protected_history_tells_its_state_and_place_in_the_log(a_world: Callable[..., Any]) -> None:
    world = await a_world()
    await world.publish("/other.md")
    await world.publish("/a.md", b"one")
    await world.publish("/a.md", b"two")
    assert (await world.ask("VERSIONS", "/a.md")).metadata == {
        "total": "2",
        "current": "2",
        "chain-valid": "true",
        "chain-state": "intact",
        "first-retained": "1",
        "sequence": "3",
        "by": "label-admin",
        "credential": "token",
    }


async def test_who_wrote_it_is_told_only_to_a_caller_with_a_credential(
    a_world: Callable[..., Any], a_grant: Callable[..., str]
) -> None:
    world = await a_world(tokens=(("admin", "/**", ("publish",)),), grants=True)
    await world.ask("PUBLISH", "/a.md", b"x", auth=a_grant(("write", "/**")))
    assert {"by", "credential"} & set((await world.ask("VERSIONS", "/a.md", auth="")).metadata) == set()
    assert {"by", "credential"} & set((await world.ask("VERSIONS", "/a.md", auth="wrong")).metadata) == set()
    told = (await world.ask("VERSIONS", "/a.md")).metadata
    assert (told["by"], told["credential"]) == ("s-" + "ab" * 16, "grant")


async def test_a_1_a_3_a_pruned_history_says_so(a_world: Callable[..., Any]) -> None:
    world = await a_world()
    await world.publish("/a.md", b"one")
    await world.publish("/a.md", b"two")
    gone = await world.ask("FETCH", "/a.md")
    await world.publish("/a.md", b"three")
    await world.publish("/a.md", b"four", retention="2")
    told = (await world.ask("VERSIONS", "/a.md")).metadata
    assert (told["total"], told["current"], told["chain-valid"]) == ("2", "4", "true")
    assert (told["chain-state"], told["first-retained"]) == ("pruned", "3")
    assert told["predecessor-hash"] == "sha256-" + gone.metadata["etag"]
    assert (await world.ask("FETCH", "/a.md/v2")).status == "not-found"


@pytest.mark.parametrize("compatible", [False, True])
async def test_c_18_a_tampered_history_is_listed_as_broken(a_world: Callable[..., Any], compatible: bool) -> None:
    world = await a_world(compatible=compatible)
    await world.publish("/a.md", b"one")
    await world.publish("/a.md", b"two")
    await tamper(world, "/a.md", 1)
    response = await world.ask("VERSIONS", "/a.md")
    assert response.status == "ok"
    assert response.metadata["chain-valid"] == "false"
    assert response.metadata["chain-error"] == "chain integrity check failed"
    assert response.metadata.get("chain-state") == (None if compatible else "broken")
    assert response.body.count(b"- [v") == 2


async def test_a_1_an_edited_body_of_the_newest_version_shows(a_world: Callable[..., Any]) -> None:
    world = await a_world()
    await world.publish("/a.md", b"one")
    await tamper(world, "/a.md", 1)
    assert (await world.ask("VERSIONS", "/a.md")).metadata["chain-state"] == "broken"


async def tamper(world: Any, path: str, number: int) -> None:
    """Changes the body of a stored version behind the world's back."""
    record = (await world.engine.view(exact=True)).version(path, number)
    data = await world.blobs.get(record.blob)
    assert hashlib.sha256(data).hexdigest() == record.etag
    await world.blobs.delete(record.blob)
    await world.blobs.create(record.blob, data[:-1] + b"!")


@pytest.mark.parametrize("compatible", [False, True])
async def test_a_protected_history_says_how_far_the_store_was_read_again(
    a_world: Callable[..., Any], compatible: bool
) -> None:
    world = await a_world(compatible=compatible)
    await world.publish("/a.md")
    world.engine.scrubbed.verified_through = 1
    told = (await world.ask("VERSIONS", "/a.md")).metadata.get("verified-through")
    assert told == (None if compatible else "1")
