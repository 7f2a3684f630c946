"""The write policy: what it asks, in which words it refuses, when it is asked, and who may change it."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine.engine import Engine, Identity, PolicyRefused, Write, WriteRefused
from demarkus_world.policy import (
    POLICY_PATH,
    PersonalData,
    Policy,
    PolicyError,
    Strictness,
    parse_policy,
    refusal_text,
    render_policy,
)
from mark_protocol.response import Response

BLOCK = b"# Policy\n\nstrictness: block\nrequire_tags: area\nrequire_fields: owner\n"
FINE = {"tags": "area:tea", "owner": "kettle"}
WHOLE = Policy(
    strictness=Strictness.BLOCK,
    require_tags=("area", "team"),
    require_fields=("owner", "type"),
    allowed_values={"status": ("draft", "final"), "area": ("tea", "coffee")},
    personal_data=PersonalData.WARN,
)


def message(response: Response) -> str:
    return response.body.decode().split("\n", 3)[3]


async def under(world: Any, text: bytes, **metadata: str) -> Any:
    await world.publish(POLICY_PATH, text, **metadata)
    return world


class TestDocument:
    def test_what_is_rendered_reads_back(self) -> None:
        assert parse_policy(render_policy(WHOLE)) == WHOLE
        assert parse_policy(render_policy(Policy())) == Policy()

    def test_the_first_line_with_a_word_counts_and_lists_take_commas_and_spaces(self) -> None:
        text = b"# P\n\n  strictness:  ask \nstrictness: block\n- strictness: warn\nrequire_tags: a,b  c\n"
        policy = parse_policy(text)
        assert (policy.strictness, policy.require_tags) == (Strictness.ASK, ("a", "b", "c"))

    def test_a_text_without_such_lines_only_warns(self) -> None:
        assert parse_policy(b"# Be nice\n") == Policy()

    @pytest.mark.parametrize(
        "text",
        [
            "strictness: maybe",
            "require_tags: a:b",
            "require_fields: Owner",
            "allowed_values: status",
            "allowed_values: status=",
            "allowed_values: status=a||b",
            "personal_data: some",
        ],
    )
    def test_what_is_no_policy_is_named(self, text: str) -> None:
        with pytest.raises(PolicyError, match=text.partition(":")[0]):
            parse_policy(text.encode())


class TestViolations:
    def test_lines_stand_in_the_order_of_the_protocol(self) -> None:
        policy = Policy(require_tags=("b", "a"), require_fields=("z", "owner"), allowed_values={"status": ("x",)})
        assert policy.violations("/a.md", {"importance": "2", "status": "y"}) == (
            "missing-tags",
            "invalid-importance",
            "missing-tag-axis: b",
            "missing-tag-axis: a",
            "missing-field: z",
            "missing-field: owner",
            "value-not-allowed: status",
        )

    @pytest.mark.parametrize(
        ("metadata", "violations"),
        [
            ({"tags": "x"}, ()),
            ({"tags": " , "}, ("missing-tags",)),
            ({"tags": "x", "importance": "0.5"}, ()),
            ({"tags": "x", "importance": " "}, ()),
            ({"tags": "x", "importance": "0x1p-1"}, ()),
            ({"tags": "x", "importance": "1_0"}, ("invalid-importance",)),
            ({"tags": "x", "importance": "nan"}, ("invalid-importance",)),
            ({"tags": "x", "importance": "1.01"}, ("invalid-importance",)),
            ({"tags": "x", "importance": "high"}, ("invalid-importance",)),
        ],
    )
    def test_tags_and_importance_are_asked_of_every_write(
        self, metadata: dict[str, str], violations: tuple[str, ...]
    ) -> None:
        assert Policy().violations("/a.md", metadata) == violations

    def test_an_axis_needs_a_value(self) -> None:
        policy = Policy(require_tags=("area",))
        assert policy.violations("/a.md", {"tags": "area:"}) == ("missing-tag-axis: area",)
        assert policy.violations("/a.md", {"tags": "areas:x,area"}) == ("missing-tag-axis: area",)
        assert policy.violations("/a.md", {"tags": "area:x"}) == ()

    @pytest.mark.parametrize(("path", "waived"), [("/a/index.md", True), ("/log.md", True), ("/a.md", False)])
    def test_index_and_log_need_no_type(self, path: str, waived: bool) -> None:
        found = Policy(require_fields=("type",)).violations(path, {"tags": "x"})
        assert found == (() if waived else ("missing-field: type",))

    def test_allowed_values_hold_for_keys_and_for_the_tags_of_an_axis(self) -> None:
        policy = Policy(allowed_values={"area": ("tea",), "status": ("draft",)})
        assert policy.violations("/a.md", {"tags": "area:tea", "status": "draft"}) == ()
        assert policy.violations("/a.md", {"tags": "area:tea,area:mud"}) == ("value-not-allowed: area",)
        assert policy.violations("/a.md", {"tags": "x"}) == ()

    def test_the_message_is_the_protocols(self) -> None:
        assert refusal_text(Strictness.BLOCK, ("missing-tags", "missing-field: owner")) == (
            "publish policy (block) refused this write:\n- missing-tags\n- missing-field: owner\n"
        )


class TestRefusal:
    async def test_block_refuses_with_the_exact_body(self, a_world: Callable[..., Any]) -> None:
        world = await under(await a_world(), BLOCK, **FINE)
        refused = await world.ask("PUBLISH", "/a.md", b"x", importance="9")
        assert refused.status == "bad-request"
        assert refused.metadata == {}
        assert refused.body == (
            b"\n# Bad request\n\npublish policy (block) refused this write:\n"
            b"- missing-tags\n- invalid-importance\n- missing-tag-axis: area\n- missing-field: owner\n\n"
        )
        assert (await world.ask("FETCH", "/a.md")).status == "not-found"
        assert (await world.publish("/a.md", b"x", **FINE)).status == "created"

    async def test_warn_lets_pass_and_says_so(self, a_world: Callable[..., Any]) -> None:
        world = await under(await a_world(), b"strictness: warn\nrequire_fields: owner\n", tags="policy", owner="us")
        response = await world.publish("/a.md", b"x")
        assert response.status == "created"
        assert response.metadata["policy-warning"] == "missing-tags; missing-field: owner"
        assert "policy-warning" not in (await world.publish("/b.md", b"x", **FINE)).metadata

    async def test_a_compatible_world_adds_no_key_to_a_response(self, a_world: Callable[..., Any]) -> None:
        world = await under(await a_world(compatible=True), b"strictness: warn\n")
        assert (await world.publish("/a.md", b"x")).metadata.keys() == {"version", "modified"}

    async def test_c_16_conflict_archived_and_unchanged_come_before_the_policy(
        self, a_world: Callable[..., Any]
    ) -> None:
        world = await a_world()
        await world.publish("/a.md", b"x")
        await world.publish("/old.md", b"x")
        await world.ask("ARCHIVE", "/old.md")
        await under(world, BLOCK, **FINE)
        assert (await world.ask("PUBLISH", "/a.md", b"y", expected_version="7")).status == "conflict"
        assert (await world.ask("PUBLISH", "/old.md", b"y")).status == "archived"
        assert (await world.ask("PUBLISH", "/a.md", b"x")).status == "ok"
        assert "path collision" in message(await world.ask("PUBLISH", "/a.md/b.md", b"y"))
        assert message(await world.ask("PUBLISH", "/a.md", b"y")).startswith("publish policy (block)")
        assert (await world.ask("APPEND", "/a.md", b"y", expected_version="9")).status == "conflict"
        assert message(await world.ask("APPEND", "/a.md", b"y", expected_version="1")).startswith("publish policy")

    async def test_c_16_an_append_is_judged_by_the_metadata_it_ends_with(self, a_world: Callable[..., Any]) -> None:
        world = await under(await a_world(), BLOCK, **FINE)
        await world.publish("/a.md", b"x", **FINE)
        assert (await world.ask("APPEND", "/a.md", b"y", expected_version="1")).status == "created"
        refused = await world.ask("APPEND", "/a.md", b"y", expected_version="2", owner="")
        assert "- missing-field: owner\n" in message(refused)

    async def test_c_17_archive_does_not_ask_the_policy(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish("/a.md", b"x")
        await under(world, BLOCK, **FINE)
        assert (await world.ask("ARCHIVE", "/missing.md")).status == "not-found"
        for _ in range(2):
            assert (await world.ask("ARCHIVE", "/a.md")).status == "ok"
        assert (await world.ask("PUBLISH", "/a.md")).status == "ok"

    async def test_a_policy_counts_from_the_write_that_makes_it_on(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        writes = [world.ask("PUBLISH", POLICY_PATH, BLOCK, **FINE), world.ask("PUBLISH", "/a.md", b"x")]
        made, refused = await asyncio.gather(*writes)
        assert (made.status, refused.status) == ("created", "bad-request")

    async def test_it_counts_after_a_restart(self, a_world: Callable[..., Any]) -> None:
        world = await under(await a_world(), BLOCK, **FINE)
        again = await world.reopened()
        try:
            assert (await again.ask("PUBLISH", "/a.md", b"x")).status == "bad-request"
        finally:
            await again.engine.close()


class _Held:
    """A store whose slots wait until they may be made."""

    exclusive = False

    def __init__(self, blobs: MemoryBlobs) -> None:
        self._blobs = blobs
        self.waits, self.go = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)

    async def create(self, key: str, data: bytes) -> None:
        if key.startswith("log/"):
            self.waits.set()
            await self.go.wait()
        await self._blobs.create(key, data)


async def test_a_lost_race_is_judged_by_the_policy_that_came_first() -> None:
    async def start(blobs: Any, seed: int) -> Engine:
        return await Engine.open(
            blobs, Identity("0a" * 16, "1b" * 16), now=lambda: 1_800_000_000_000, random=random.Random(seed).randbytes
        )

    blobs = MemoryBlobs()
    held = _Held(blobs)
    other = await start(blobs, 1)
    slow = await start(held, 2)
    try:
        late = asyncio.create_task(slow.write(Write(op="publish", path="/a.md", body=b"x", by="a", credential="token")))
        await asyncio.wait_for(held.waits.wait(), 10)
        policy = Write(op="publish", path=POLICY_PATH, body=BLOCK, metadata=FINE, by="b", credential="token")
        await other.write(policy)
        held.go.set()
        with pytest.raises(PolicyRefused):
            await late
        assert (await other.view(exact=True)).head("/a.md") is None
    finally:
        await slow.close()
        await other.close()


async def test_an_append_that_is_looked_at_while_its_base_arrives_is_decided_anew() -> None:
    """The long text is looked at in a thread; meanwhile another writer makes the version that it builds on."""
    blobs = MemoryBlobs()

    async def start(seed: int) -> Engine:
        return await Engine.open(
            blobs, Identity("0a" * 16, "1b" * 16), now=lambda: 1_800_000_000_000, random=random.Random(seed).randbytes
        )

    one, other = await start(1), await start(2)
    try:
        for version in range(5):
            text = b"a line of text\n" * 2000 + b"%d" % version
            late = Write(op="append", path="/a.md", body=text, expected=version + 1, by="a", credential="token")
            task = asyncio.create_task(one.write(late))
            await asyncio.sleep(0)
            await other.write(Write(op="publish", path="/a.md", body=b"%d" % version, by="b", credential="token"))
            watching = asyncio.create_task(one.view(exact=True))
            with contextlib.suppress(WriteRefused):
                await task
            await watching
        assert one.fault is None
    finally:
        await one.close()
        await other.close()


class TestPolicyDocument:
    async def test_an_invalid_one_is_not_taken(self, a_world: Callable[..., Any]) -> None:
        world = await under(await a_world(), BLOCK, **FINE)
        refused = await world.ask("PUBLISH", POLICY_PATH, b"strictness: sometimes\n", **FINE)
        assert refused.status == "bad-request"
        assert message(refused).startswith("invalid policy: strictness is 'sometimes'; it is one of warn, block, ask")
        refused = await world.ask(
            "APPEND", "/.well-known/demarkus/policy.md", b"personal_data: x", expected_version="1"
        )
        assert message(refused).startswith("invalid policy: personal_data")

    async def test_one_that_refuses_writes_is_lifted_before_it_is_archived(self, a_world: Callable[..., Any]) -> None:
        world = await under(await a_world(), BLOCK, **FINE)
        refused = await world.ask("ARCHIVE", POLICY_PATH)
        assert refused.status == "not-permitted"
        assert "publish it with strictness warn first" in message(refused)
        await under(world, b"strictness: warn\n", **FINE)
        assert (await world.ask("ARCHIVE", POLICY_PATH)).status == "ok"
        assert (await world.ask("ARCHIVE", POLICY_PATH)).status == "ok"
        assert "policy-warning" not in (await world.publish("/a.md", b"x")).metadata

    async def test_a_configured_policy_rules_and_owns_the_document(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(policy=Policy(strictness=Strictness.BLOCK, require_fields=("owner",)))
        for verb, body, keys in (("PUBLISH", b"x", FINE), ("ARCHIVE", b"", {}), ("PUBLISH", b"", {})):
            refused = await world.ask(verb, POLICY_PATH, body, **keys)
            assert refused.status == "not-permitted"
            assert message(refused).startswith("the policy document follows the World's configuration")
        assert "- missing-field: owner\n" in message(await world.ask("PUBLISH", "/a.md", b"x", tags="a"))
