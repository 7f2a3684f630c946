"""The fields of world.yaml that bind history and size: what they mean, and what is refused by name."""

from typing import Any

import pytest
import yaml

from demarkus_world.engine.engine import Expected, Rules
from demarkus_world.engine.rules import Hold, Quota, Retention
from demarkus_world.settings import Settings, SettingsError, parse_settings


def settings(**fields: Any) -> Settings:
    base = {
        "name": "kettles",
        "identity": {"history": "a" * 32, "incarnation": "b" * 32},
        "store": {"memory": {}},
        "tls": {"certificate": "/tls.crt", "key": "/tls.key"},
    }
    return parse_settings(yaml.safe_dump(base | fields).encode(), source="world.yaml")


def test_without_them_nothing_is_held_back() -> None:
    found = settings()
    assert (found.rules, found.expected) == (Rules(retention=Retention(holds=[])), None)
    assert (found.retention.key, found.retention.grace) == ("refuse", 24 * 3600)


def test_they_are_what_every_commit_is_held_to() -> None:
    found = settings(
        retention={
            "key": "ignore",
            "keepVersions": 3,
            "keepFor": "90d",
            "grace": "0s",
            "holds": [{"paths": ["/contracts/**", "/a.md"], "reason": "case 12"}],
        },
        limits={"maxDocuments": 7, "maxBytes": 1000},
        expect={"history": "a" * 32, "minSize": 9},
    )
    holds = [Hold(paths=("/contracts/**", "/a.md"), reason="case 12")]
    assert found.rules == Rules(
        retention=Retention(keep_versions=3, keep_for=90 * 86_400_000, holds=holds),
        quota=Quota(max_documents=7, max_bytes=1000),
    )
    assert found.expected == Expected("a" * 32, 9)
    assert (found.retention.key, found.retention.grace) == ("ignore", 0)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"retention": {"key": "maybe"}}, "retention.key: "),
        ({"retention": {"keepVersions": -1}}, "retention.keepVersions: "),
        ({"retention": {"keepFor": "90"}}, "retention.keepFor: expected a duration"),
        ({"retention": {"grace": 5}}, "retention.grace: expected a duration"),
        ({"retention": {"holds": [{"paths": [], "reason": "x"}]}}, "retention.holds.0.paths: "),
        ({"retention": {"holds": [{"paths": ["/a**"], "reason": "x"}]}}, "retention.holds.0.paths.0: "),
        ({"retention": {"holds": [{"paths": ["a.md"], "reason": "x"}]}}, "a pattern begins with /"),
        ({"retention": {"holds": [{"paths": ["/a.md"]}]}}, "retention.holds.0.reason: required field is missing"),
        ({"retention": {"forever": True}}, "retention.forever: unknown field"),
        ({"limits": {"maxDocuments": 0}}, "limits.maxDocuments: "),
        ({"limits": {"maxBytes": "many"}}, "limits.maxBytes: "),
        ({"expect": {"minSize": 1}}, "expect.history: required field is missing"),
        ({"expect": {"history": "x", "minSize": 1}}, "expect.history: "),
        ({"expect": {"history": "a" * 32, "minSize": -1}}, "expect.minSize: "),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(**fields)
    assert problem in str(refused.value)
