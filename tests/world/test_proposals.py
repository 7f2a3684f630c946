"""Proposals: what a policy `ask` leaves to somebody else, who decides it, who sees it, and when it ends."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from demarkus_world import proposals
from demarkus_world.changes import KINDS
from demarkus_world.engine.engine import Settle, Unavailable, Write
from demarkus_world.engine.entries import Op
from demarkus_world.engine.judgement import OPEN_PROPOSALS, PROPOSAL_LIFE
from demarkus_world.engine.verify.verify import Expected, verify
from demarkus_world.policy import POLICY_PATH, PROPOSALS
from mark_protocol.request import parse_request
from mark_protocol.response import Response

ASK = b"strictness: ask\nrequire_fields: owner\n"
FINE = {"tags": "a", "owner": "kettle"}
REFUSAL = "publish policy (ask) refused this write:\n- missing-tags\n- missing-field: owner\n\n"
HISTORY = "0a" * 16
TOKENS = (
    ("admin", "/**", ("publish", "read", "prune")),
    ("author", "/notes/**", ("publish", "read")),
    ("other", "/notes/**", ("publish", "read")),
    ("reviewer", "/notes/**", ("write", "read", "review")),
    ("elsewhere", "/drafts/**", ("write", "read", "review")),
    ("looker", "/notes/**", ("review", "read")),
)


def message(response: Response) -> str:
    return response.body.decode().split("\n", 3)[3]


@pytest.fixture
async def world(a_world: Callable[..., Any]) -> Any:
    """A world whose policy asks."""
    made = await a_world(tokens=TOKENS, reads="scoped")
    await made.publish(POLICY_PATH, ASK, **FINE)
    return made


async def propose(world: Any, path: str = "/notes/a.md", body: bytes = b"# Tea\n", **metadata: str) -> str:
    refused = await world.ask("PUBLISH", path, body, auth="author", **metadata)
    assert (refused.status, message(refused)) == ("bad-request", REFUSAL)
    return proposals.path_of(refused.metadata["proposal"])


async def entries(world: Any) -> list[Any]:
    return [entry async for page in world.engine._log.entries_from(1) for entry in page]


class TestKeeping:
    async def test_the_author_gets_the_refusal_and_the_proposal_is_the_request(self, world: Any) -> None:
        path = await propose(world, title="T")
        kept = await world.ask("FETCH", path, auth="author")
        assert kept.metadata["target"] == "/notes/a.md"
        request = parse_request(kept.body)
        assert (request.verb, request.path, request.body) == ("PUBLISH", "/notes/a.md", b"# Tea\n")
        assert request.metadata == {"title": "T", "type": "Document"}
        assert (await world.ask("FETCH", "/notes/a.md", auth="author")).status == "not-found"

    async def test_the_same_write_is_kept_once_for_each_author(self, world: Any) -> None:
        assert await propose(world) == await propose(world)
        other = await world.ask("PUBLISH", "/notes/a.md", b"# Tea\n", auth="other")
        assert proposals.path_of(other.metadata["proposal"]) != await propose(world)

    async def test_a_write_that_keeps_to_the_policy_needs_nobody(self, world: Any) -> None:
        assert (await world.ask("PUBLISH", "/notes/a.md", b"x", auth="author", **FINE)).status == "created"
        assert not (await world.engine.view(exact=True)).is_directory(PROPOSALS)

    async def test_conflicts_and_secrets_are_no_proposals(self, world: Any) -> None:
        stale = await world.ask("PUBLISH", "/notes/a.md", b"x", auth="author", expected_version="3")
        assert stale.status == "conflict"
        secret = await world.ask("PUBLISH", "/notes/a.md", b"hv" + b"s.K3fqZ81mPw0TtYx7Lr5Bv2NcQd9H", auth="author")
        assert "- secret: vault-token at line 1" in message(secret)
        assert "proposal" not in stale.metadata | secret.metadata

    async def test_no_more_than_a_hundred_are_open(self, world: Any) -> None:
        for number in range(OPEN_PROPOSALS):
            await propose(world, body=b"%d" % number)
        refused = await world.ask("PUBLISH", "/notes/a.md", b"one more", auth="author")
        assert message(refused) == REFUSAL
        assert refused.metadata == {"proposal-error": "100 proposals are open; some have to be decided first"}
        path = await propose(world, body=b"7")
        assert (await world.ask("PUBLISH", path, b"x", auth="reviewer", decision="reject")).status == "ok"
        await propose(world, body=b"one more")

    async def test_a_store_that_fails_leaves_the_refusal(self, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        write = type(world.engine).write

        async def fail(engine: Any, change: Any, **options: Any) -> Any:
            if isinstance(change, Write) and change.op == "propose":
                raise Unavailable("the bucket is away")
            return await write(engine, change, **options)

        monkeypatch.setattr(type(world.engine), "write", fail)
        refused = await world.ask("PUBLISH", "/notes/a.md", b"x", auth="author")
        assert (refused.status, message(refused)) == ("bad-request", REFUSAL)
        assert refused.metadata == {"proposal-error": "the store is unavailable; try again later"}


class TestDeciding:
    @pytest.mark.parametrize("body", [b"decision: accept\n", b"# Fine\n\ndecision:  accept \r\nthanks\n", b""])
    async def test_accept_makes_the_write_its_authors_in_one_slot(self, world: Any, body: bytes) -> None:
        path = await propose(world)
        before = world.engine.statistics.slots
        keys = {} if body else {"decision": "accept"}
        accepted = await world.ask("PUBLISH", path, body, auth="reviewer", **keys)
        assert accepted.status == "created"
        assert (accepted.metadata["decision"], accepted.metadata["version"]) == ("accept", "1")
        assert world.engine.statistics.slots == before + 1
        decided, written = (await entries(world))[-2:]
        assert (decided.op, decided.path, decided.verdict, decided.by) == ("decide", path, "accept", "label-reviewer")
        assert (written.op, written.path, written.by) == ("publish", "/notes/a.md", "label-author")
        assert decided.operation == written.operation
        assert (await world.ask("FETCH", "/notes/a.md", auth="other")).body == b"# Tea\n"
        assert (await world.ask("FETCH", path, auth="author")).status == "archived"

    async def test_reject_changes_nothing_else(self, world: Any) -> None:
        path = await propose(world)
        rejected = await world.ask("PUBLISH", path, b"decision: reject", auth="reviewer")
        assert (rejected.status, rejected.metadata) == ("ok", {"decision": "reject"})
        assert (await world.ask("FETCH", "/notes/a.md", auth="other")).status == "not-found"
        assert (await entries(world))[-1].verdict == "reject"

    async def test_what_is_decided_is_not_decided_again(self, world: Any) -> None:
        path = await propose(world)
        await world.ask("PUBLISH", path, b"decision: reject", auth="reviewer")
        again = await world.ask("PUBLISH", path, b"decision: accept", auth="reviewer")
        assert (again.status, message(again)) == ("archived", f"{path} is decided\n")

    async def test_two_decisions_at_once_are_one(self, world: Any) -> None:
        path = await propose(world)
        both = [world.ask("PUBLISH", path, b"decision: " + word, auth="reviewer") for word in (b"accept", b"reject")]
        answers = sorted(answer.status for answer in await asyncio.gather(*both))
        assert answers in (["archived", "created"], ["archived", "ok"])

    @pytest.mark.parametrize(
        ("auth", "status", "told"),
        [
            ("", "unauthorized", "authentication required\n"),
            ("nobody", "unauthorized", "authentication required\n"),
            ("author", "not-permitted", "insufficient permissions\n"),
            ("other", "not-permitted", "insufficient permissions\n"),
            ("admin", "not-permitted", "insufficient permissions\n"),
            ("elsewhere", "not-permitted", "insufficient permissions\n"),
            ("looker", "not-permitted", "insufficient permissions\n"),
        ],
    )
    async def test_it_takes_review_and_write_on_the_document(
        self, world: Any, auth: str, status: str, told: str
    ) -> None:
        path = await propose(world)
        refused = await world.ask("PUBLISH", path, b"decision: accept", auth=auth)
        assert (refused.status, message(refused)) == (status, told)

    async def test_nothing_is_decided_where_nothing_is_written(self, world: Any) -> None:
        path = await propose(world)
        world.rules = replace(world.rules, read_only=True)
        refused = await world.ask("PUBLISH", path, b"decision: reject", auth="reviewer")
        assert (refused.status, message(refused)) == ("not-permitted", "server is read-only\n")

    async def test_nobody_decides_their_own(self, world: Any) -> None:
        refused = await world.ask("PUBLISH", "/notes/a.md", b"x", auth="reviewer")
        path = proposals.path_of(refused.metadata["proposal"])
        own = await world.ask("PUBLISH", path, b"decision: accept", auth="reviewer")
        assert own.status == "not-permitted"
        assert message(own) == "a proposal is decided by somebody else than its author\n"

    @pytest.mark.parametrize("body", [b"", b"yes", b"decision: perhaps", b"the decision: accept"])
    async def test_a_decision_is_one_of_two_words(self, world: Any, body: bytes) -> None:
        path = await propose(world)
        assert (await world.ask("PUBLISH", path, body, auth="reviewer")).status == "bad-request"

    async def test_what_is_no_proposal_is_not_found(self, world: Any) -> None:
        missing = await world.ask("PUBLISH", proposals.path_of("x"), b"decision: accept", auth="reviewer")
        assert missing.status == "not-found"

    async def test_all_checks_are_made_again(self, world: Any) -> None:
        path = await propose(world, expected_version="0")
        await world.publish("/notes/a.md", b"first", **FINE)
        stale = await world.ask("PUBLISH", path, b"decision: accept", auth="reviewer")
        assert (stale.status, stale.metadata["server-version"]) == ("conflict", "1")
        assert (await world.ask("FETCH", path, auth="reviewer")).status == "ok"
        other = await propose(world, body=b"second")
        await world.ask("ARCHIVE", "/notes/a.md")
        assert (await world.ask("PUBLISH", other, b"decision: accept", auth="reviewer")).status == "archived"

    async def test_a_policy_that_blocks_meanwhile_blocks_the_acceptance(self, world: Any) -> None:
        path = await propose(world)
        await world.publish(POLICY_PATH, ASK.replace(b"ask", b"block"), **FINE)
        refused = await world.ask("PUBLISH", path, b"decision: accept", auth="reviewer")
        assert message(refused).startswith("publish policy (block)")
        assert refused.metadata == {}

    async def test_an_append_is_joined_when_it_is_accepted(self, world: Any) -> None:
        await world.publish("/notes/a.md", b"one", **FINE)
        refused = await world.ask("APPEND", "/notes/a.md", b"two", auth="author", expected_version="1", owner="")
        path = proposals.path_of(refused.metadata["proposal"])
        assert (await world.ask("PUBLISH", path, b"decision: accept", auth="reviewer")).status == "created"
        assert (await world.ask("FETCH", "/notes/a.md")).body == b"one\ntwo"
        assert (await entries(world))[-1].op == "append"

    async def test_what_is_there_already_still_closes_the_proposal(self, world: Any) -> None:
        path = await propose(world)
        again = await world.ask("PUBLISH", "/notes/a.md", b"# Tea\n", auth="other")
        other = proposals.path_of(again.metadata["proposal"])
        assert (await world.ask("PUBLISH", path, b"decision: accept", auth="reviewer")).status == "created"
        assert (await world.ask("PUBLISH", other, b"decision: accept", auth="reviewer")).status == "ok"
        assert (await world.ask("FETCH", other, auth="other")).status == "archived"

    @pytest.mark.parametrize(("verb", "keys"), [("APPEND", {"expected_version": "1"}), ("ARCHIVE", {})])
    async def test_proposals_are_changed_in_no_other_way(self, world: Any, verb: str, keys: dict[str, str]) -> None:
        path = await propose(world)
        refused = await world.ask(verb, path, b"x", auth="admin", **keys)
        assert refused.status == "bad-request"
        assert message(refused).startswith("a proposal is only decided")

    async def test_it_holds_after_a_restart_and_for_a_whole_check(self, world: Any) -> None:
        path, open_one = await propose(world), await propose(world, body=b"other")
        await world.ask("PUBLISH", path, b"decision: accept", auth="reviewer")
        again = await world.reopened()
        try:
            assert (await again.ask("FETCH", path, auth="author")).status == "archived"
            assert await again.names(PROPOSALS, auth="reviewer") == [open_one.rpartition("/")[2]]
            assert (await again.ask("VERSIONS", "/notes/a.md", auth="author")).metadata["chain-valid"] == "true"
            report = await verify(world.blobs, Expected(history=HISTORY), pause=asyncio.sleep)
            assert not report.findings
        finally:
            await again.engine.close()


class TestSeeing:
    async def test_author_and_readers_of_the_document_see_it_and_nobody_else(self, world: Any) -> None:
        path = await propose(world)
        for auth, status in (("author", "ok"), ("looker", "ok"), ("admin", "ok"), ("elsewhere", "not-permitted")):
            assert (await world.ask("FETCH", path, auth=auth)).status == status
            assert (await world.ask("VERSIONS", path, auth=auth)).status == status
        assert (await world.ask("FETCH", path, auth="")).status == "unauthorized"
        assert await world.names(PROPOSALS, auth="looker") == [path.rpartition("/")[2]]
        assert (await world.ask("LIST", PROPOSALS, auth="elsewhere")).status == "not-found"

    async def test_it_is_not_public_in_a_public_world(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(tokens=(*TOKENS[:1], ("author", "/**", ("publish",))), reads="public")
        await world.publish(POLICY_PATH, ASK, **FINE)
        path = await propose(world)
        assert (await world.ask("FETCH", path, auth="")).status == "unauthorized"
        assert (await world.ask("FETCH", path, auth="author")).status == "ok"

    async def test_it_is_no_match_no_change_and_no_body_that_a_hash_leads_to(self, world: Any) -> None:
        path = await propose(world, title="Zanzibar", body=b"# Zanzibar\n")
        found = await world.ask("LOOKUP", "/", query="Zanzibar")
        assert found.metadata["matches"] == "0"
        assert (await world.ask("LOOKUP", "/", query="*")).body.count(PROPOSALS.encode()) == 0
        kept = await world.ask("FETCH", path, auth="author")
        by_hash = await world.ask("FETCH", "/" + kept.metadata["content-hash"], auth="elsewhere")
        assert by_hash.status == "not-found"
        assert not {Op.PROPOSE, Op.DECIDE} & KINDS.keys()


class TestEnd:
    async def test_it_expires_on_its_30th_day(self, world: Any) -> None:
        path = await propose(world)
        assert await proposals.expire(world.engine, now=world.clock[0]) == 0
        world.clock[0] += PROPOSAL_LIFE
        late = await world.ask("PUBLISH", path, b"decision: accept", auth="reviewer")
        assert (late.status, message(late)) == ("archived", f"{path} has expired\n")
        young = await propose(world, body=b"young")
        assert await proposals.expire(world.engine, now=world.clock[0]) == 1
        assert (await entries(world))[-1].verdict == "expire"
        assert (await world.ask("FETCH", path, auth="author")).status == "archived"
        assert await world.names(PROPOSALS, auth="reviewer") == [young.rpartition("/")[2]]

    async def test_only_what_is_old_expires(self, world: Any) -> None:
        path = await propose(world)
        written = await world.engine.write(Settle(path=path, verdict="expire"))
        assert written.outcome == "unchanged"
