"""A World that comes back without the volume of its known history, and with it."""

from __future__ import annotations

import base64
from typing import Any

import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from demarkus_operator.plan.children.world_witness import record
from demarkus_operator.plan.names import WorldNames, witness_record
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.witness import judged, record_of
from tests.cluster.home import OPERATOR_NAMESPACE, Home, eventually
from tests.operator.history_log import Log

WORLD = {
    "apiVersion": "demarkus.io/v1alpha1",
    "kind": "World",
    "metadata": {"name": "tea"},
    "spec": {"store": {"volume": {"size": "1Gi"}}},
}


async def _witnessed(home: Home, names: WorldNames) -> str:
    """Records what a World of three entries proves; the history."""
    secret = {key: base64.b64decode(value) for key, value in (await home.api.get(names.identity))["data"].items()}
    history, life = secret["history"].decode(), secret["incarnation"].decode()
    key = load_pem_private_key(secret["world.key"], password=None)
    assert isinstance(key, Ed25519PrivateKey)
    log = Log(history=history, life=life, key=key).grow("a", "b", "c")
    nothing = record_of(None, history=history, key=key.public_key())
    after, _ = judged(nothing, log.testifies(nothing))
    owner = Owner.of_world(await home.api.get(home.world("tea")), None)
    await home.api.create(record(owner, witness_record(OPERATOR_NAMESPACE, history), after, None))
    return history


async def _settled(home: Home, names: WorldNames) -> None:
    await home.reaches(home.world("tea"), "Applied", type_="Reconciled")
    await home.reaches(home.world("tea"), "Starting")


async def _expected(home: Home, names: WorldNames) -> Any:
    return yaml.safe_load((await home.api.get(names.config))["data"]["world.yaml"]).get("expect")


async def test_row_13_a_world_without_its_volume_is_lost_and_the_restored_claim_is_adopted(home: Home) -> None:
    names = WorldNames(home.namespace, "tea")
    await home.operator()
    home.apply(WORLD)
    await _settled(home, names)
    history = await _witnessed(home, names)

    async def expects() -> bool:
        return bool(await _expected(home, names) == {"history": history, "minSize": 3})

    await eventually("a configuration that expects what was witnessed", expects)
    secrets, claim = await home.secrets(), await home.api.get(names.claim)
    home.kubectl("delete", "world", "tea")
    home.kubectl("delete", "pvc", "tea-data", "--timeout=60s")

    home.apply(WORLD)
    lost = await home.reaches(home.world("tea"), "StoreLost")
    assert f"PersistentVolumeClaim {home.namespace}/tea-data is gone" in lost["message"]
    assert f"demarkus.io/accept-empty-store={history}" in lost["message"]
    assert await home.find(names.claim) is None
    assert await expects()
    assert await home.secrets() == secrets

    # A backup tool brings the claim back: as it was, but for what the API server decides.
    kept = {key: value for key, value in claim["metadata"].items() if key in ("name", "namespace", "labels")}
    restored = await home.api.create({**claim, "metadata": kept, "status": {}})
    await home.reaches(home.world("tea"), "Starting")
    assert (await home.api.get(names.claim))["metadata"]["uid"] == restored["metadata"]["uid"]
    assert "ownerReferences" not in (await home.api.get(names.claim))["metadata"]
    assert (await home.api.get(home.world("tea")))["status"]["history"] == history
    assert await home.secrets() == secrets
