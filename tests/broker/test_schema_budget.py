"""What the tables of tools cost: every session of every agent reads all schemas and descriptions."""

from __future__ import annotations

import pytest

from demarkus_broker.mcp.instructions import INSTRUCTIONS
from demarkus_broker.mcp.server import described
from demarkus_broker.mcp.tools.table import PROFILES, TOOLS

EACH = 1500
"""Bytes of one tool at most."""
ON_AVERAGE = 750
"""Bytes of a tool of a profile."""


def size(name: str) -> int:
    return len(described(TOOLS[name]).model_dump_json(by_alias=True, exclude_none=True).encode())


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_stays_within_its_budget(name: str) -> None:
    assert size(name) <= EACH


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_stays_within_its_budget(profile: str) -> None:
    tools = PROFILES[profile]
    assert sum(map(size, tools)) <= ON_AVERAGE * len(TOOLS)
    assert sum(map(size, tools)) / len(tools) <= ON_AVERAGE + 50


def test_the_instructions_stay_short() -> None:
    assert len(INSTRUCTIONS.encode()) <= 1500
