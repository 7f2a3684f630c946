"""What was generated once is never made anew: not by a restart, not by two operators, not by a deletion."""

from __future__ import annotations

import time

from demarkus_operator.plan.names import UniverseNames, WorldNames
from tests.cluster.home import EXAMPLE, Home, eventually

OVERLAP = 10.0
"""Seconds for which two operators act at once."""


async def test_row_9_three_restarts_change_no_secret(home: Home) -> None:
    operator = await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    secrets, versions = await home.secrets(), await home.versions()
    assert len(secrets) == 9
    for _ in range(3):
        await operator.stop()
        operator = await home.operator()
        for ref in (home.universe(), home.world(), home.world("packages")):
            await operator.looked_at(ref)
    assert await home.secrets() == secrets
    assert await home.versions() == versions


async def test_two_operators_at_once_change_no_secret(home: Home) -> None:
    """Each holds a lease of its own, as if the election had failed. They begin together with an empty namespace."""
    operators = [await home.operator(lease=f"{home.namespace}-{number}") for number in range(2)]
    began = time.monotonic()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    secrets = await home.secrets()
    created = [write for write in home.writes() if write.startswith("create secrets")]
    number = 0
    while time.monotonic() - began < OVERLAP or number < 5:
        number += 1
        home.kubectl("annotate", "worlds,universes", "--all", "--overwrite", f"example.com/touched={number}")
        for operator in operators:
            await operator.looked_at(home.world(), times=number)
            await operator.looked_at(home.universe(), times=number)
    assert await home.secrets() == secrets
    assert [write for write in home.writes() if write.startswith("create secrets")] == created
    assert all(operator.status is None for operator in operators)


async def test_deleting_a_world_keeps_its_volume_and_secrets(home: Home) -> None:
    await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    names = WorldNames(home.namespace, "packages")
    kept = {names.identity, names.certificate, names.tokens, names.token("importer"), names.claim}
    before = await home.versions()
    home.kubectl("delete", "world", "packages")

    async def the_rest_is_gone() -> bool:
        here = {ref for ref in await home.objects() if ref.name == "packages" or ref.name.startswith("packages-")}
        return here == kept

    await eventually("only the volume and the Secrets are left", the_rest_is_gone)
    after = await home.versions()
    assert {ref: after[ref] for ref in kept} == {ref: before[ref] for ref in kept}

    async def routed_no_more() -> bool:
        config = await home.api.get(UniverseNames(home.namespace, "acme").config)
        return "packages" not in config["data"]["broker.yaml"]

    await eventually("the gateway leads there no more", routed_no_more)

    home.apply_files([EXAMPLE / "packages.yaml"])
    await home.settled()
    again = await home.secrets()
    assert again[names.identity] == (await home.api.get(names.identity))["data"]
    assert {ref: (await home.versions())[ref] for ref in kept} == {ref: before[ref] for ref in kept}


async def test_deleting_the_universe_changes_nothing_at_its_worlds(home: Home) -> None:
    operator = await home.operator()
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    names = WorldNames(home.namespace, "handbook")
    await home.pods_are_ready(names.stateful_set)
    await home.reaches(home.world(), "Serving")
    before = await home.versions()
    home.kubectl("delete", "universe", "acme")
    ready = await home.reaches(home.world(), "UniverseGone")
    assert ready["status"] == "True"
    await operator.looked_at(home.world("packages"))
    after = await home.versions()
    changed = {ref for ref in before if ref.name.startswith(("handbook", "packages")) and before[ref] != after.get(ref)}
    assert changed <= {home.world(), home.world("packages")}
