"""Logins as Secrets on a real API server, with no more rights than the Role gives."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from demarkus_base.blobs.port import Exists, NotFound, Permanent
from demarkus_broker.state.codes import Codes
from demarkus_broker.state.devices import Devices
from demarkus_broker.state.facts import Facts
from demarkus_broker.state.kubernetes import SecretBlobs
from demarkus_broker.state.logins import Logins, ReusedError
from demarkus_broker.state.registrations import Registrations
from demarkus_broker.state.sweep import MARGIN, Population, sweep
from dev.cluster.plane import ControlPlane

ROLE = "demarkus-broker-state"


def account(plane: ControlPlane, namespace: str, folder: Path, *, verbs: list[str]) -> Path:
    """A folder as a pod has it: a token of a ServiceAccount with these rights on Secrets, and whom to trust."""
    for manifest in (
        {"apiVersion": "v1", "kind": "ServiceAccount"},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": verbs}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": ROLE, "namespace": namespace}],
        },
    ):
        text = json.dumps(manifest | {"metadata": {"name": ROLE, "namespace": namespace}})
        plane.kubectl("apply", "--filename", "-", input=text)
    token = plane.kubectl("create", "token", ROLE, "--namespace", namespace).stdout
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_bytes(plane.authority.certificate.read_bytes())
    return folder


@contextlib.asynccontextmanager
async def a_store(plane: ControlPlane, namespace: str, folder: Path) -> AsyncIterator[SecretBlobs]:
    environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(plane.port)}
    blobs = SecretBlobs.in_cluster(namespace, environment=environment, account=folder)
    try:
        yield blobs
    finally:
        await blobs.close()


@pytest.fixture
async def blobs(plane: ControlPlane, other_namespace: str, tmp_path: Path) -> AsyncIterator[SecretBlobs]:
    folder = account(plane, other_namespace, tmp_path, verbs=["get", "list", "create", "delete"])
    async with a_store(plane, other_namespace, folder) as found:
        yield found


async def keys(blobs: SecretBlobs, prefix: str, after: str = "") -> list[str]:
    return [key async for key in blobs.list(prefix, after)]


async def test_secrets_do_what_the_four_calls_promise(blobs: SecretBlobs) -> None:
    key = "codes/1800000000-" + "0" * 32 + "/issued"
    with pytest.raises(NotFound):
        await blobs.get(key)
    outcomes = await asyncio.gather(*(blobs.create(key, b"%d" % n) for n in range(8)), return_exceptions=True)
    assert Counter(type(outcome) for outcome in outcomes) == {type(None): 1, Exists: 7}
    assert await blobs.get(key) == b"%d" % outcomes.index(None)
    await blobs.create(key.replace("issued", "used"), b"\x00\xff")
    await blobs.create("devices/x/asked", b"")
    assert await keys(blobs, "codes/") == [key, key.replace("issued", "used")]
    assert await keys(blobs, "codes/", after=key) == [key.replace("issued", "used")]
    assert await keys(blobs, key[:-3]) == [key]
    assert len(await keys(blobs, "")) == 3
    assert await blobs.get("devices/x/asked") == b""
    await blobs.delete(key)
    with pytest.raises(NotFound):
        await blobs.delete(key)


async def test_all_that_outlives_a_process_fits_into_secrets(blobs: SecretBlobs) -> None:
    facts, now = Facts(blobs), int(time.time())
    code = await Codes(facts).issue({"client": "c"}, expires=now + 60)
    assert await Codes(facts).use(code, login="l") is None
    _, user_code = await Devices(facts).ask({"client": "tv"}, expires=now + 600)
    assert await Devices(facts).waiting(user_code, now=now) is not None
    client_id = await Registrations(facts).add({"client_name": "x"}, expires=now + 60)
    assert await Registrations(facts).find(client_id, now=now) == {"client_name": "x"}
    logins = Logins(facts)
    name = logins.new_name(now + 60)
    token = await logins.begin(name, {}, person="s-" + "a" * 32, now=now)
    await logins.tell_check(name, 1, {})
    login = await logins.find(token, now=now)
    assert login is not None
    siblings = await asyncio.gather(*(logins.rotate(login, now=now) for _ in range(3)))
    assert len(set(siblings)) == 3
    with pytest.raises(ReusedError):
        await logins.rotate(login, now=now + 61)
    await sweep(facts, Population(Counter()), now=now + 600 + MARGIN + 1)
    assert [key for key in await keys(blobs, "") if not key.startswith("sweeps/")] == []


async def test_missing_rights_and_a_missing_namespace_are_for_somebody_to_change(
    plane: ControlPlane, other_namespace: str, tmp_path: Path
) -> None:
    folder = account(plane, other_namespace, tmp_path, verbs=["get"])
    async with a_store(plane, other_namespace, folder) as blobs:
        with pytest.raises(Permanent, match="needs get, list, create and delete"):
            await blobs.create("codes/x/issued", b"")
    (folder / "token").write_text("not a token")
    async with a_store(plane, other_namespace, folder) as blobs:
        with pytest.raises(Permanent):
            await blobs.get("codes/x/issued")
    (folder / "token").unlink()
    async with a_store(plane, other_namespace, folder) as blobs:
        with pytest.raises(Permanent, match="no token"):
            await blobs.get("codes/x/issued")


def test_outside_of_a_cluster_there_are_no_secrets() -> None:
    with pytest.raises(ValueError, match=r"state\.kubernetes works only in a cluster"):
        SecretBlobs.in_cluster("logins", environment={})


@pytest.mark.parametrize("key", ["Codes/x", "codes/x.y", "codes/-x", "codes//x", "codes/" + "x" * 250])
async def test_what_is_no_name_of_a_secret_is_no_key(key: str) -> None:
    store: Any = object.__new__(SecretBlobs)
    with pytest.raises(ValueError, match="key"):
        await store.create(key, b"")
