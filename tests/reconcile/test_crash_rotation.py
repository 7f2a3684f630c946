"""The crash matrix of keys, authorities, tokens and certificates that are exchanged."""

from __future__ import annotations

import pytest

from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Ref
from tests.reconcile.acme import TOKENS, Acme, a_universe, a_world
from tests.reconcile.crash import Act, Data, Put, Story, survives, told

UNIVERSE = UniverseNames("acme", "acme")
AUTHORITY = UNIVERSE.authority("demarkus-system")
TOKEN = WorldNames("acme", "packages").token("importer")


def later(*, days: int = 0, hours: int = 0) -> Act:
    """Time passes."""

    def passes(acme: Acme) -> None:
        acme.seconds += (days * 24 + hours) * 3600

    return passes


def pods_are_ready(acme: Acme) -> None:
    """The World's pod and the gateway's serve."""
    for ref in (WorldNames("acme", "packages").stateful_set, UNIVERSE.deployment):
        acme.port.edit(ref, "status", "readyReplicas", value=acme.port.objects[ref]["spec"]["replicas"])


def one_after_the_other(secret: Ref, before: Data, after: Data) -> bool:
    """What is used next was there before, and what is kept stays what it is."""
    match secret.name:
        case UNIVERSE.keys.name:
            return all(after[name] == value for name, value in before.items() if name in after and name[-4:] != "json")
        case AUTHORITY.name:
            return after["ca.key"] in (before["ca.key"], before.get("next.key"))
        case TOKEN.name:
            return after["token"] in (before["token"], before.get("next"))
        case "packages-tls" | "packages-tokens":
            return bool(after)
    return before == after


EXAMPLE = (
    a_universe(trust={"rotateEvery": "90d"}),
    a_world("packages", tokens=[{**TOKENS[0], "rotateEvery": "90d"}]),
)
STORY = Story(
    name="exchange everything",
    before=[Put(*EXAMPLE), pods_are_ready],
    # Nobody says whether the old token is used still: it goes after a week.
    steps=[later(days=91), later(hours=13), later(days=7)],
    allowed=one_after_the_other,
)
BEFORE = Story(name="before that", steps=STORY.before, allowed=one_after_the_other)


async def test_a_death_after_any_write_leads_to_the_same_end() -> None:
    deaths = await survives(STORY)
    print(f"{STORY}: {deaths} deaths")


async def test_everything_is_exchanged_in_the_end() -> None:
    acme, _ = await told(BEFORE)
    before = acme.port.secrets()
    acme, _ = await told(STORY)
    after = acme.port.secrets()
    assert before.keys() == after.keys()
    assert {key.partition("-")[0] for key in after[UNIVERSE.keys]} >= {"broker", "grant"}
    assert sum(key.endswith(".pem") for key in after[UNIVERSE.keys]) == 2
    assert not {key for key in before[UNIVERSE.keys] if key.endswith(".pem")} & after[UNIVERSE.keys].keys()
    assert after[AUTHORITY].keys() == {"ca.crt", "ca.key"}
    assert after[AUTHORITY]["ca.key"] != before[AUTHORITY]["ca.key"]
    assert after[TOKEN].keys() == {"token"}
    assert after[TOKEN] != before[TOKEN]


@pytest.mark.parametrize("days", [59, 89])
async def test_nothing_is_exchanged_too_early(days: int) -> None:
    acme, _ = await told(BEFORE)
    before = acme.port.secrets()
    later(days=days)(acme)
    await acme.converge()
    changed = {ref.name for ref, data in acme.port.secrets().items() if data != before[ref]}
    assert changed == ({"packages-tls"} if days == 89 else set())
