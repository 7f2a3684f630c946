"""What a world writes into itself because its configuration says so: the policy document, and seeds.

The policy document is kept equal to `policy`. A seed is made where there is no document of its path, archived ones
included, and never touched again. Without `policy` the policy document is like any other.
"""

from __future__ import annotations

import contextlib
import logging

from demarkus_world.engine.engine import DocumentMissing, Engine, VersionConflict, Write, WriteRefused
from demarkus_world.policy import POLICY_METADATA, POLICY_PATH, render_policy
from demarkus_world.settings import Settings
from mark_protocol.metadata import with_default_type

BY = "configuration"
"""How the history names who wrote."""

logger = logging.getLogger(__name__)


async def sow(engine: Engine, settings: Settings) -> None:
    """Makes what is missing. A seed that is refused is told in the log. Raises EngineError when the store fails."""
    if settings.policy is not None:
        body = render_policy(settings.policy.policy)
        with contextlib.suppress(DocumentMissing):
            await engine.write(Write(op="unarchive", path=POLICY_PATH, by=BY, credential="local"))
        await _write(engine, POLICY_PATH, body, expected=None, **POLICY_METADATA)
    for seed in settings.seed:
        text = manifest(settings) if seed.text is None else seed.text
        await _write(engine, seed.path, text.encode(), expected=0)


def manifest(settings: Settings) -> str:
    """The agent manifest of a world that has none of its own."""
    reads = {
        "public": "Documents are open unless a read token covers them; a read is then sent with a credential.",
        "universe": "Every read needs a credential; the gateway of the universe gives one.",
        "scoped": "Every read needs a capability token.",
    }
    return (
        f"# {settings.name}\n\n## Description\n\nA world of versioned markdown documents.\n\n"
        f"## Auth\n\n{reads[settings.reads]} Writes need a credential.\n\n"
        "## Capabilities\n\n- lookup-match: catalog, body\n"
    )


async def _write(engine: Engine, path: str, body: bytes, *, expected: int | None, **metadata: str) -> None:
    write = Write(
        op="seed",
        path=path,
        body=body,
        metadata=with_default_type(path, metadata),
        expected=expected,
        by=BY,
        credential="local",
    )
    try:
        written = await engine.write(write)
    except VersionConflict:
        return  # it is there
    except WriteRefused as refusal:
        logger.error("%s was not seeded: %s", path, refusal)
        return
    if written.outcome == "created":
        logger.info("seeded %s, version %d", path, written.version)
