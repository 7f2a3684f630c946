"""The example universe, applied file by file in every order: every child is there, with content that works."""

from __future__ import annotations

import base64
import hashlib
import itertools
import ssl
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Manifest, Ref
from mark_protocol.grants import KeySet
from tests.cluster.home import EXAMPLE, Home

FILES = ("universe.yaml", "handbook.yaml", "packages.yaml")
SUBJECTS = {"universe.yaml": "acme", "handbook.yaml": "handbook", "packages.yaml": "packages"}


@pytest.mark.parametrize("order", list(itertools.permutations(FILES)), ids=lambda order: " ".join(order))
async def test_any_order_of_files_leads_to_the_whole_universe(home: Home, order: tuple[str, ...]) -> None:
    await home.operator()
    for file in order:
        home.apply_files([EXAMPLE / file])
        name = SUBJECTS[file]
        # The next file comes only when this one was looked at, so that the order is one.
        waits = file != "universe.yaml" and order.index(file) < order.index("universe.yaml")
        ref = home.universe(name) if file == "universe.yaml" else home.world(name)
        await home.reaches(ref, "WaitingForUniverse" if waits else "Starting")
    await home.settled()
    objects = await home.objects()
    check_world(objects, home, "handbook", tokens=())
    check_world(objects, home, "packages", tokens=("importer",))
    check_universe(objects, home)


def data(objects: dict[Ref, Manifest], ref: Ref) -> dict[str, bytes]:
    """The data of a Secret or ConfigMap."""
    found = objects[ref]
    raw = {key: value.encode() for key, value in found["data"].items()}
    return {key: base64.b64decode(value) for key, value in raw.items()} if found["kind"] == "Secret" else raw


def check_world(objects: dict[Ref, Manifest], home: Home, name: str, *, tokens: tuple[str, ...]) -> None:
    """The children of a World fit together: what the server reads is what the Secrets say."""
    names = WorldNames(home.namespace, name)
    world = objects[home.world(name)]
    identity = data(objects, names.identity)
    config = yaml.safe_load(data(objects, names.config)["world.yaml"])
    assert config["name"] == name
    assert config["identity"]["history"] == identity["history"].decode() == world["status"]["history"]
    assert config["identity"]["incarnation"] == identity["incarnation"].decode() == world["status"]["incarnation"]
    assert config["reads"] == "universe"

    broker_keys = data(objects, UniverseNames(home.namespace, "acme").keys)
    (grant_kid,) = [key.removeprefix("grant-").removesuffix(".pem") for key in broker_keys if key.startswith("grant-")]
    key_set = data(objects, names.config)["keys.json"]
    KeySet.from_jwks(key_set)
    assert f'"{grant_kid}"'.encode() in key_set

    entries = tomllib.loads(data(objects, names.tokens)["tokens.toml"].decode()).get("tokens", {})
    assert sorted(entries) == sorted(tokens)
    for token in tokens:
        raw = data(objects, names.token(token))["token"]
        assert entries[token]["hash"] == f"sha256-{hashlib.sha256(raw).hexdigest()}"

    check_certificate(data(objects, names.certificate), f"{name}.{home.namespace}.svc")
    check_stateful_set(objects, names, name)
    claim = objects[names.claim]
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert "ownerReferences" not in claim["metadata"]
    ports = {(port["port"], port["protocol"]) for port in objects[names.service]["spec"]["ports"]}
    assert (6309, "UDP") in ports
    assert objects[names.pods_service]["spec"]["clusterIP"] == "None"
    for ref, one in objects.items():
        if ref.name.startswith(f"{name}-"):
            assert one["metadata"]["labels"]["demarkus.io/world"] == name, ref
            kept = ref.kind in ("Secret", "PersistentVolumeClaim")
            assert bool(one["metadata"].get("ownerReferences")) == (not kept), ref


def check_certificate(secret: dict[str, bytes], name: str) -> None:
    """The certificate is for this name and signed by the authority beside it."""
    certificate = x509.load_pem_x509_certificate(secret["tls.crt"])
    authority = x509.load_pem_x509_certificate(secret["ca.crt"])
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert name in names.get_values_for_type(x509.DNSName)
    ssl.create_default_context(cadata=secret["ca.crt"].decode())


def check_stateful_set(objects: dict[Ref, Manifest], names: WorldNames, name: str) -> None:
    """The pod mounts what the World's configuration names, and may do nothing else."""
    spec = objects[names.stateful_set]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert spec["replicas"] == 1
    assert container["image"] == "demarkus/world:0.1.0"
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/etc/demarkus/config", "/etc/demarkus/tls", "/etc/demarkus/identity", "/var/lib/demarkus"} <= mounts
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"persistentVolumeClaim": {"claimName": f"{name}-data"}}.items() <= next(
        volume for volume in pod["volumes"] if "persistentVolumeClaim" in volume
    ).items()


def check_universe(objects: dict[Ref, Manifest], home: Home) -> None:
    """The gateway knows both Worlds as they are, and has the keys that they trust."""
    names = UniverseNames(home.namespace, "acme")
    config: dict[str, Any] = yaml.safe_load(data(objects, names.config)["broker.yaml"])
    assert config["publicURL"] == "https://mark.acme.example"
    assert [world["name"] for world in config["worlds"]] == ["handbook", "packages"]
    for world in config["worlds"]:
        status = objects[home.world(world["name"])]["status"]
        assert (world["history"], world["incarnation"]) == (status["history"], status["incarnation"])
        assert world["serverName"] == f"{world['name']}.{home.namespace}.svc"
    assert config["worlds"][0]["access"]["writers"] == [{"emails": ["demo@example.com"], "operations": ["publish"]}]
    certificate = data(objects, WorldNames(home.namespace, "handbook").certificate)
    assert data(objects, names.config)["ca.crt"].strip() == certificate["ca.crt"].strip()
    deployment = objects[names.deployment]["spec"]
    assert (deployment["replicas"], deployment["template"]["spec"]["containers"][0]["image"]) == (
        2,
        "demarkus/broker:0.1.0",
    )
    assert objects[names.disruption_budget]["spec"]["maxUnavailable"] == 1
    assert objects[home.universe()]["status"]["worlds"] == 2


def test_example_is_the_one_of_the_repository() -> None:
    assert sorted(path.name for path in Path(EXAMPLE).iterdir()) == sorted(FILES)
