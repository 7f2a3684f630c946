"""A real World behind a real gateway that goes over to an issuer of cert-manager and back: nobody is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Ref
from tests.operator.issuer import Issuer, ready
from tests.operator.real_universe import DOCUMENT, RealUniverse, Traffic, serving

CORPORATE = {"name": "corporate", "kind": "ClusterIssuer"}
WORLD, UNIVERSE = WorldNames("acme", "tea"), UniverseNames("acme", "acme")


class IssuingUniverse(RealUniverse):
    """One whose Worlds can have their certificates from an issuer, which is played."""

    async def answer(self, issuer: Issuer, ref: Ref) -> None:
        certificate = await self.port.get(ref)
        await self.port.apply(issuer.secret(certificate, self.now()))
        await self.port.patch_status(ref, ready(certificate))

    async def authority_shown(self) -> str:
        status: dict[str, Any] = (await self.port.get(self.world()))["status"]
        return str(status["loaded"].get("authority"))


@pytest.fixture
async def universe(tmp_path: Path) -> AsyncIterator[IssuingUniverse]:
    async with serving(IssuingUniverse(tmp_path)) as made:
        yield made


async def test_issuer_is_taken_on_and_left_again_and_nobody_is_refused(universe: IssuingUniverse) -> None:
    issuer = Issuer("corporate", universe.now())
    root, own = issuer.root.public_bytes(Encoding.PEM), await universe.authority()
    await universe.publish("/native.md")
    traffic = Traffic(universe)

    async def issued() -> bool:
        return await universe.authority_shown() == issuer.fingerprint

    async def own_again() -> bool:
        shown = await universe.authority_shown() != issuer.fingerprint
        return shown and (await universe.authorities()).keys() == {"ca.crt", "ca.key"}

    async with traffic.running():
        universe.trust = {"issuerRef": CORPORATE}
        await universe.declare()
        await universe.look()
        for ref in (WORLD.issued_certificate, UNIVERSE.issuer_certificate):
            await universe.answer(issuer, ref)
        await universe.until("the World shows what the issuer signed", issued)
        assert await universe.native(await universe.token(), root) == "created"
        assert await universe.native(await universe.token(), own) == "unreachable"
        assert await universe.gateway(await universe.bearer(), "mark_fetch", url=DOCUMENT) == "ok"
        universe.trust = {}
        await universe.declare()
        await universe.until("the World shows what its Universe signed", own_again)
        assert await universe.native(await universe.token(), own) == "created"
        assert await universe.native(await universe.token(), root) == "unreachable"
    assert traffic.told == []
    assert traffic.done > 5
