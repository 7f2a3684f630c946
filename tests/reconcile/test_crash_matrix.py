"""The crash matrix: one row a story, one column a write after which the operator dies."""

from __future__ import annotations

import pytest

from demarkus_operator.plan.names import WorldNames
from demarkus_operator.reconcile.universe import universe_ref
from demarkus_operator.reconcile.world import world_ref
from tests.reconcile.acme import TOKENS, Acme, a_universe, a_world, an_example
from tests.reconcile.crash import Delete, Put, Story, survives

HANDBOOK = world_ref("acme", "handbook")


def pods_are_ready(acme: Acme) -> None:
    """The pods of both Worlds serve."""
    for name in ("handbook", "packages"):
        acme.port.edit(WorldNames("acme", name).stateful_set, "status", "readyReplicas", value=1)


STORIES = [
    Story(name="create a World", steps=[Put(a_world(universe=None, tokens=TOKENS))]),
    Story(name="create a World of a Universe", before=[Put(a_universe())], steps=[Put(a_world(tokens=TOKENS))]),
    Story(name="create a Universe", steps=[Put(a_universe())]),
    Story(name="create a Universe that Worlds wait for", before=[Put(*an_example()[1:])], steps=[Put(a_universe())]),
    Story(
        name="change a World",
        before=[Put(*an_example())],
        steps=[Put(a_world("packages", reads="public")), Put(a_world("packages", tokens=TOKENS))],
    ),
    Story(
        name="change a Universe",
        before=[Put(*an_example())],
        steps=[Put(a_universe(broker={"replicas": 1})), Put(a_universe(publicURL="https://m.acme.example"))],
    ),
    Story(name="delete a World", before=[Put(*an_example())], steps=[Delete(HANDBOOK)]),
    Story(
        name="delete a World and make it again", before=[Put(*an_example())], steps=[Delete(HANDBOOK), Put(a_world())]
    ),
    Story(
        name="delete a Universe",
        before=[Put(*an_example()), pods_are_ready],
        steps=[Delete(universe_ref("acme", "acme"))],
    ),
]


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_a_death_after_any_write_leads_to_the_same_end(story: Story) -> None:
    deaths = await survives(story)
    print(f"{story}: {deaths} deaths")
