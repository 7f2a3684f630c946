"""The exchange of every credential on the real API server, with the operator's own rights; its processes are played."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_kube_config

from demarkus_base.settings import content_digest
from demarkus_operator.cluster.kubernetes import Kubernetes
from demarkus_operator.plan import labels
from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.reports import Report
from demarkus_operator.plan.site import Site
from demarkus_operator.processes.asked import Place
from demarkus_operator.processes.pods import in_cluster
from demarkus_operator.reconcile.concern import concern_of
from demarkus_operator.reconcile.loop import Edge, Outcome, reconcile
from tests.cluster.home import OPERATOR_NAMESPACE, Home, eventually

EVERY = {"rotateEvery": "90d"}
UNIVERSE = {"publicURL": "https://mark.example.com", "trust": EVERY, "broker": {"replicas": 1}}
WORLD = {
    "universeRef": {"name": "acme"},
    "store": {"volume": {"size": "1Gi"}},
    "tokens": [{"name": "robot", "operations": ["read"], "paths": ["/**"], **EVERY}],
}


class Played:
    """Processes in the pods that the cluster knows. They have loaded what is there, but for the pods in `behind`."""

    def __init__(self, home: Home, port: Kubernetes) -> None:
        self._home = home
        self._places = in_cluster(port)
        self.behind: dict[str, Report] = {}

    async def reports(self, ref: Ref) -> Sequence[Report]:
        loaded = await (self._of_world(ref) if ref.kind == "World" else self._of_gateway(ref))
        places = sorted(await self._places(ref), key=lambda place: place.pod)
        return [self._report(place, loaded) for place in places]

    def _report(self, place: Place, loaded: dict[str, str]) -> Report:
        said = self.behind.get(place.pod) or Report(
            pod=place.pod, ready=place.ready, loaded=loaded, used={"robot": 1, "robot.previous": 1}
        )
        return dataclasses.replace(said, resource_version=place.resource_version, synced=place.synced)

    async def _of_world(self, ref: Ref) -> dict[str, str]:
        names = WorldNames(ref.namespace, ref.name)
        config = ((await self._home.find(names.config)) or {}).get("data") or {}
        tls, tokens = data(await self._home.find(names.certificate)), data(await self._home.find(names.tokens))
        if not (config and tls and tokens):
            return {}
        return {
            "keySet": hashlib.sha256(config["keys.json"].encode()).hexdigest(),
            "tls": content_digest([tls["tls.crt"], tls["tls.key"]]),
            "tokens": content_digest([tokens["tokens.toml"]]),
        }

    async def _of_gateway(self, ref: Ref) -> dict[str, str]:
        names = UniverseNames(ref.namespace, ref.name)
        config = ((await self._home.find(names.config)) or {}).get("data") or {}
        keys = data(await self._home.find(names.keys))
        if not (config and keys):
            return {}
        return {
            "caBundle": hashlib.sha256(config["ca.crt"].encode()).hexdigest(),
            "keys": content_digest([keys[name] for name in sorted(keys)]),
        }


def data(secret: Manifest | None) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in ((secret or {}).get("data") or {}).items()}


class Looks:
    """The operator's loop in this process, with a clock that can be put forward."""

    def __init__(self, home: Home, port: Kubernetes) -> None:
        self.home = home
        self.ahead = timedelta()
        self.played = Played(home, port)
        self.edge = Edge(
            port=port,
            site=Site(operator_namespace=OPERATOR_NAMESPACE, version="0.1.0"),
            now=lambda: datetime.now(UTC) + self.ahead,
            random=os.urandom,
            processes=self.played,
        )

    async def all(self) -> list[str]:
        """One look at both; what was written."""
        written: list[str] = []
        for ref in (self.home.universe(), self.home.world("tea")):
            outcome = Outcome()
            await reconcile(self.edge, ref, concern_of(self.edge, ref), outcome=outcome)
            written += outcome.written
        return written

    async def settle(self) -> list[str]:
        """Looks until nothing is written; all that was."""
        written: list[str] = []
        for _ in range(20):
            more = await self.all()
            if not more:
                return written
            written += more
        raise AssertionError(f"it never settles: {written[-10:]}")


async def test_row_10_everything_is_exchanged_by_guarded_patches_and_then_it_is_quiet(home: Home) -> None:
    configuration = Configuration()
    await load_kube_config(str(home.kubeconfig), client_configuration=configuration, persist_config=False)
    async with Kubernetes(configuration) as port:
        looks = Looks(home, port)
        world, universe = WorldNames(home.namespace, "tea"), UniverseNames(home.namespace, "acme")
        for kind, name, spec in (("Universe", "acme", UNIVERSE), ("World", "tea", WORLD)):
            metadata = {"name": name, "namespace": home.namespace}
            home.apply({"apiVersion": "demarkus.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
        await looks.settle()
        for workload in (world.stateful_set, universe.deployment):
            await home.pods_are_ready(workload)
        await home_serves(home, looks)

        async def in_use() -> dict[str, Any]:
            keys, authority = data(await home.find(universe.keys)), data(await home.find(ca))
            tls, token = data(await home.find(world.certificate)), data(await home.find(world.token("robot")))
            return {
                "key for grants": json.loads(keys["signing.json"])["grant"],
                "key for bearers": json.loads(keys["signing.json"])["broker"],
                "authority": authority["ca.crt"],
                "certificate": tls["tls.crt"],
                "token": token["token"],
            }

        ca = universe.authority(OPERATOR_NAMESPACE)
        before, here = await in_use(), await home.secrets()
        looks.ahead = timedelta(days=91)
        (pod,) = [place.pod for place in await in_cluster(port)(home.world("tea"))]
        (said,) = await looks.played.reports(home.world("tea"))
        looks.played.behind[pod] = said
        await looks.settle()
        assert (await in_use())["key for grants"] == before["key for grants"], "the World has not loaded the next one"
        annotations = (await home.api.get(Ref("v1", "Pod", home.namespace, pod)))["metadata"]["annotations"]
        assert labels.SYNCED in annotations
        looks.played.behind.clear()
        written = await looks.settle()
        after = await in_use()
        assert {what for what, value in after.items() if value == before[what]} == set()
        assert any("use token robot" in word for word in written)
        for step in (timedelta(hours=13), timedelta(hours=13)):
            looks.ahead += step
            await looks.settle()
        assert await in_use() == after
        keys = data(await home.find(universe.keys))
        assert sorted(name.partition("-")[0] for name in keys if name.endswith(".pem")) == ["broker", "grant"]
        assert data(await home.find(ca)).keys() == {"ca.crt", "ca.key"}
        assert data(await home.find(world.token("robot"))).keys() == {"token"}
        assert (await home.secrets()).keys() == here.keys()
        assert await looks.all() == []


async def home_serves(home: Home, looks: Looks) -> None:
    """The World and its gateway are seen to serve."""
    for ref in (home.universe(), home.world("tea")):

        async def serves(ref: Ref = ref) -> bool:
            await looks.settle()
            return (await home.condition(ref)).get("reason") == "Serving"

        await eventually(f"{ref} serves", serves)
