"""What the configuration writes into a world: its policy document, its seeds."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from demarkus_world.policy import POLICY_PATH, parse_policy
from demarkus_world.seeds import sow
from demarkus_world.settings import AGENT_MANIFEST, Settings, SettingsError, parse_settings

BASE = """
name: tea
identity: {history: 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a, incarnation: 1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b}
store: {memory: {}}
tls: {certificate: c.pem, key: k.pem}
"""


def settings(text: str) -> Settings:
    return parse_settings((BASE + text).encode(), source="world.yaml")


OWNED = """
policy:
  strictness: block
  requireTags: [area]
  requireFields: [owner]
  allowedValues: {status: [draft, final]}
  personalData: off
"""


class TestPolicy:
    async def test_the_document_is_kept_equal_to_the_configuration(self, a_world: Callable[..., Any]) -> None:
        world, first = await a_world(), settings(OWNED)
        await world.publish(POLICY_PATH, b"strictness: ask\n")
        await world.ask("ARCHIVE", POLICY_PATH) if False else None
        await sow(world.engine, first)
        fetched = await world.ask("FETCH", POLICY_PATH)
        assert first.policy is not None
        assert parse_policy(fetched.body) == first.policy.policy == first.rules.policy
        assert fetched.metadata["version"] == "2"
        await sow(world.engine, first)
        assert (await world.ask("FETCH", POLICY_PATH)).metadata["version"] == "2"
        await sow(world.engine, settings(OWNED.replace("block", "warn")))
        assert b"strictness: warn" in (await world.ask("FETCH", POLICY_PATH)).body

    async def test_an_archived_document_comes_back(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        await world.publish(POLICY_PATH, b"strictness: warn\n")
        await world.ask("ARCHIVE", POLICY_PATH)
        await sow(world.engine, settings(OWNED))
        assert (await world.ask("FETCH", POLICY_PATH)).status == "ok"

    def test_off_is_a_word_although_yaml_has_another_opinion(self) -> None:
        parsed = settings("policy: {personalData: off}").policy
        assert parsed is not None
        assert parsed.personal_data == "off"

    @pytest.mark.parametrize(
        ("text", "field"),
        [
            ("policy: {strictness: maybe}", "policy.strictness"),
            ("policy: {requireTags: ['a b']}", "policy.requireTags.0"),
            ("policy: {requireFields: [Owner]}", "policy.requireFields.0"),
            ("policy: {allowedValues: {status: []}}", "policy.allowedValues.status"),
            ("policy: {allowedValues: {status: ['a|b']}}", "policy.allowedValues.status.0"),
            ("policy: {personalData: some}", "policy.personalData"),
            ("policy: {colour: red}", "policy.colour"),
            ("seed: [{path: a.md, text: x}]", "seed.0.path"),
            ("seed: [{path: /a/../b.md, text: x}]", "seed.0.path"),
            ("seed: [{path: /a.txt, text: x}]", "seed.0.path"),
            ("seed: [{path: /a.md}]", "seed.0.text"),
            (f"policy: {{}}\nseed: [{{path: {POLICY_PATH}, text: x}}]", "seed.0"),
        ],
    )
    def test_a_wrong_field_is_named(self, text: str, field: str) -> None:
        with pytest.raises(SettingsError) as caught:
            settings(text)
        assert field in str(caught.value)


class TestSeeds:
    async def test_seeds_are_made_once_and_then_left_alone(self, a_world: Callable[..., Any]) -> None:
        world = await a_world()
        wanted = settings("seed: [{path: /index.md, text: '# Hello'}, {path: /gone.md, text: x}]")
        await sow(world.engine, wanted)
        assert (await world.ask("FETCH", "/index.md")).body == b"# Hello"
        history = await world.ask("VERSIONS", "/index.md")
        assert (history.metadata["by"], history.metadata["credential"]) == ("configuration", "local")
        await world.publish("/index.md", b"# Mine")
        await world.ask("ARCHIVE", "/gone.md")
        await sow(world.engine, wanted)
        assert (await world.ask("FETCH", "/index.md")).body == b"# Mine"
        assert (await world.ask("FETCH", "/gone.md")).status == "archived"

    async def test_the_manifest_has_a_text_of_its_own_if_it_is_asked_for(self, a_world: Callable[..., Any]) -> None:
        world = await a_world(reads="scoped")
        await sow(world.engine, settings("reads: scoped"))
        assert (await world.ask("FETCH", AGENT_MANIFEST, auth="")).status == "not-found"
        await sow(world.engine, settings(f"reads: scoped\nseed: [{{path: {AGENT_MANIFEST}}}]"))
        manifest = await world.ask("FETCH", AGENT_MANIFEST, auth="")
        assert manifest.body.startswith(b"# tea\n\n## Description\n\n")

    async def test_the_policy_does_not_stop_what_the_configuration_says(self, a_world: Callable[..., Any]) -> None:
        wanted = settings(OWNED + "seed: [{path: /a.md, text: x}]")
        world = await a_world(policy=wanted.rules.policy)
        await sow(world.engine, wanted)
        assert (await world.ask("FETCH", "/a.md")).status == "ok"

    async def test_a_seed_that_is_refused_stops_no_other(
        self, a_world: Callable[..., Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        world = await a_world()
        seeds = [f"{{path: {path}, text: x}}" for path in ("/a.md", "/a.md/b.md", "/c.md")]
        await sow(world.engine, settings(f"seed: [{', '.join(seeds)}]"))
        assert (await world.ask("FETCH", "/c.md")).status == "ok"
        assert "/a.md/b.md was not seeded" in caplog.text


async def fetched(world: Any, path: str, text: bytes) -> None:
    """Waits until a document says something."""
    answer = None
    for _ in range(200):
        answer = await world.request("FETCH", path)
        if text in answer.body:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"waited for {path} to say {text!r}; its last answer was {answer}")


class TestProcess:
    async def test_a_running_world_follows_its_configuration(
        self, start_world: Callable[..., Any], token_file: Callable[..., str]
    ) -> None:
        world = start_world(
            reads="public",
            tokens=token_file(("admin", "/**", ("publish",))),
            policy={"strictness": "block", "requireFields": ["owner"]},
            seed=[{"path": AGENT_MANIFEST}],
        )
        await fetched(world, POLICY_PATH, b"strictness: block\nrequire_fields: owner\n")
        await fetched(world, AGENT_MANIFEST, b"## Description")
        refused = await world.request("PUBLISH", "/a.md", b"x", auth="admin", tags="a")
        assert b"publish policy (block) refused this write:\n- missing-field: owner\n" in refused.body
        assert (await world.request("PUBLISH", POLICY_PATH, b"x", auth="admin")).status == "not-permitted"
        world.write_config(policy={"strictness": "warn"}, seed=[{"path": "/late.md", "text": "late"}])
        await fetched(world, POLICY_PATH, b"strictness: warn\n")
        await fetched(world, "/late.md", b"late")
        assert (await world.request("PUBLISH", "/a.md", b"x", auth="admin")).metadata[
            "policy-warning"
        ] == "missing-tags"
        assert world.stop() == 0
