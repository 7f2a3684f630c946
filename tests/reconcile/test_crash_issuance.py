"""The crash matrix of an issuer of cert-manager that is taken on and left again."""

from __future__ import annotations

import functools

from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Ref
from tests.operator.issuer import Issuer, ready
from tests.reconcile.acme import Acme, a_universe, a_world
from tests.reconcile.crash import Data, Put, Story, survives, told

UNIVERSE, WORLD = UniverseNames("acme", "acme"), WorldNames("acme", "packages")
AUTHORITY = UNIVERSE.authority("demarkus-system")
CORPORATE = {"name": "corporate", "kind": "ClusterIssuer"}


@functools.cache
def issuer() -> Issuer:
    """One for all tellings."""
    return Issuer("corporate", Acme().now())


def cert_manager_answers(acme: Acme) -> None:
    """It makes what both Certificates ask for."""
    for ref in (UNIVERSE.issuer_certificate, WORLD.issued_certificate):
        certificate = acme.port.objects[ref]
        acme.port.put(issuer().secret(certificate, acme.now()))
        acme.port.edit(ref, "status", value=ready(certificate))


def nothing_is_lost(secret: Ref, before: Data, after: Data) -> bool:
    """Only the certificate changes, and who is trusted beside the own authority."""
    if secret == WORLD.certificate:
        return after.keys() == before.keys()
    if secret in (WORLD.issued, UNIVERSE.issuer):
        return not after or before == after
    own = {"ca.crt", "ca.key"} if secret == AUTHORITY else before.keys() | after.keys()
    return all(before.get(key) == after.get(key) for key in own)


ASKED = Put(a_universe(trust={"issuerRef": CORPORATE}))
TAKEN_ON = Story(
    name="take on an issuer",
    before=[Put(a_universe(), a_world("packages"))],
    steps=[ASKED, cert_manager_answers],
    allowed=nothing_is_lost,
)
LEFT = Story(
    name="leave an issuer",
    before=[*TAKEN_ON.before, *TAKEN_ON.steps],
    steps=[Put(a_universe())],
    allowed=nothing_is_lost,
)


async def test_a_death_after_any_write_leads_to_the_same_end() -> None:
    for story in (TAKEN_ON, LEFT):
        deaths = await survives(story)
        print(f"{story}: {deaths} deaths")
        assert deaths > 5


async def test_what_is_left_leaves_nothing_behind() -> None:
    acme, _ = await told(TAKEN_ON)
    assert acme.port.secrets()[WORLD.certificate]["tls.crt"] == acme.port.secrets()[WORLD.issued]["tls.crt"]
    before, _ = await told(Story(name="before", steps=TAKEN_ON.before))
    after, _ = await told(LEFT)
    assert after.port.objects.keys() == before.port.objects.keys()
    assert after.port.secrets()[AUTHORITY].keys() == {"ca.crt", "ca.key"}
