"""What the operator writes is what the services read: their own readers are asked."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from demarkus_broker import keys as broker_keys
from demarkus_broker.settings import load as load_broker_settings
from demarkus_world.settings import changes_needing_restart, parse_settings
from mark_protocol.grants import Allow, Grant, KeySet, sign_grant, verify_grant
from mark_protocol.tokens import parse_tokens

Build = Callable[..., dict[str, Any]]

ACCESS = {
    "readers": [{"groups": ["tea"], "paths": ["/docs/**"]}],
    "writers": [{"emails": ["rosa@example.com"], "claims": {"team": ["tea"]}, "operations": ["append"]}],
}


def _config(cluster: Any, name: str, key: str) -> str:
    return str(cluster.get("ConfigMap", name)["data"][key])


def _secret(cluster: Any, name: str) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in cluster.get("Secret", name)["data"].items()}


def _mounted(cluster: Any, kind: str, name: str) -> set[str]:
    (container,) = cluster.get(kind, name)["spec"]["template"]["spec"]["containers"]
    return {mount["mountPath"] for mount in container["volumeMounts"]}


def test_world_reads_its_configuration(settled: Any, a_world: Build) -> None:
    limits = {"rate": {"perSecond": 5, "burst": 9}, "maxStreams": 7, "requestTimeout": "500ms"}
    settled.put(a_world(limits=limits, reads="public", history="compatible", access=ACCESS))
    settled.settle()
    settings = parse_settings(_config(settled, "tea-world-config", "world.yaml").encode(), source="world.yaml")
    assert settings.name == "tea"
    assert settings.identity.history == settled.get("World", "tea")["status"]["history"]
    assert (settings.reads, settings.history) == ("public", "compatible")
    assert (settings.limits.max_streams, settings.limits.request_timeout) == (7, 0.5)
    assert (settings.limits.rate.per_second, settings.limits.rate.burst) == (5, 9)


def test_world_reads_policy_and_seeds_as_they_are_written(settled: Any, a_world: Build) -> None:
    policy = {
        "strictness": "ask",
        "requireTags": ["area"],
        "requireFields": ["owner"],
        "allowedValues": {"status": ["draft", "final"]},
        "personalData": "off",
    }
    seeds = [{"path": "/.well-known/agent-manifest.md"}, {"path": "/index.md", "text": "# Tea\n"}]
    settled.put(a_world(policy=policy, seed=seeds, access=ACCESS))
    settled.settle()
    settings = parse_settings(_config(settled, "tea-world-config", "world.yaml").encode(), source="world.yaml")
    assert settings.policy is not None
    assert settings.policy.model_dump(mode="json", by_alias=True) == policy
    assert [(seed.path, seed.text) for seed in settings.seed] == [(s["path"], s.get("text")) for s in seeds]


def test_world_reads_every_field_that_is_passed_on(settled: Any, a_world: Build) -> None:
    retention = {
        "key": "ignore",
        "keepVersions": 3,
        "keepFor": "90d",
        "grace": "48h",
        "holds": [{"paths": ["/contracts/**"], "reason": "case 7"}],
    }
    limits = {"maxDocuments": 1000, "maxBytes": "5Gi", "maxWatches": 9}
    settled.put(a_world(retention=retention, limits=limits))
    settled.settle()
    settings = parse_settings(_config(settled, "tea-world-config", "world.yaml").encode(), source="world.yaml")
    assert (settings.retention.key, settings.retention.keep_versions) == ("ignore", 3)
    assert (settings.retention.keep_for, settings.retention.grace) == (90 * 86400, 48 * 3600)
    assert [(hold.paths, hold.reason) for hold in settings.retention.holds] == [(("/contracts/**",), "case 7")]
    assert (settings.limits.max_documents, settings.limits.max_bytes, settings.limits.max_watches) == (1000, 5 << 30, 9)


def test_world_in_a_bucket_keeps_its_view_on_a_scratch_volume(settled: Any, a_world: Build) -> None:
    settled.put(a_world("ink", store={"bucket": {"url": "gs://acme-worlds/ink"}}))
    settled.settle()
    settings = parse_settings(_config(settled, "ink-world-config", "world.yaml").encode(), source="world.yaml")
    assert settings.store.gcs is not None
    assert settings.store.gcs.url == "gs://acme-worlds/ink"
    assert str(settings.view.directory).startswith("/var/lib/demarkus/")
    assert "/var/lib/demarkus" in _mounted(settled, "StatefulSet", "ink-world")


def test_world_finds_its_token_files(settled: Any, a_world: Build) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "others", "namespace": "acme"},
        "data": {"team.toml": "eA=="},
    }
    settled.put(secret)
    settled.put(a_world(tokenFiles=[{"secretRef": {"name": "others", "key": "team.toml"}}]))
    settled.settle()
    settings = parse_settings(_config(settled, "tea-world-config", "world.yaml").encode(), source="world.yaml")
    file = settings.tokens[1]
    assert file.name == "team.toml"
    assert str(file.parent) in _mounted(settled, "StatefulSet", "tea-world")


def test_gateway_reads_who_may_sign_in_and_where_logins_are(settled: Any, a_universe: Build) -> None:
    identity = {
        "issuer": "https://accounts.example.com/v2",
        "clientID": "mark",
        "clientSecretRef": {"name": "oidc", "key": "secret"},
        "scopes": ["email", "groups"],
        "rules": [{"domains": ["example.com"], "claims": {"team": ["tea"]}}],
        "revalidate": "30m",
        "maxLogin": "12h",
    }
    client = {"clientID": "chat", "name": "Chat", "redirectURIs": ["https://chat.example.com/callback"]}
    broker = {
        "state": {"kubernetes": {"namespace": "logins"}},
        "webClients": [{**client, "secretHash": "0" * 64}],
        "limits": {"subject": {"perSecond": 5, "burst": 9}, "trustedProxies": 2, "maxConcurrent": 50},
    }
    settled.put(a_universe(identity=identity, broker=broker))
    settled.settle()
    text = _config(settled, "acme-broker-config", "broker.yaml").encode()
    settings = load_broker_settings(text, source="broker.yaml")
    assert settings.identity is not None
    assert (settings.identity.issuer, settings.identity.client_id) == ("https://accounts.example.com/v2", "mark")
    assert (settings.identity.revalidate, settings.identity.max_login) == (1800, 43200)
    assert settings.identity.rules[0].domains == ("example.com",)
    assert str(settings.identity.client_secret_file.parent) in _mounted(settled, "Deployment", "acme-broker")
    assert settings.state is not None
    assert settings.state.kubernetes is not None
    assert settings.state.kubernetes.namespace == "logins"
    assert (settings.web_clients[0].client_id, settings.web_clients[0].secret_hash) == ("chat", "0" * 64)
    assert (settings.limits.subject.burst, settings.limits.trusted_proxies) == (9, 2)


def test_every_file_of_the_configuration_is_mounted(settled: Any) -> None:
    settings = parse_settings(_config(settled, "tea-world-config", "world.yaml").encode(), source="world.yaml")
    files = [settings.tls.certificate, settings.tls.key, *settings.tokens, settings.key_set, settings.identity.key_file]
    assert {str(file.parent) for file in files if file} | {str(settings.store.directory)} == _mounted(
        settled, "StatefulSet", "tea-world"
    )
    assert settings.tls.certificate.name in _secret(settled, "tea-tls")
    assert settings.tls.key.name in _secret(settled, "tea-tls")
    assert settings.tokens[0].name in _secret(settled, "tea-tokens")
    broker = load_broker_settings(_config(settled, "acme-broker-config", "broker.yaml").encode(), source="broker.yaml")
    assert {str(broker.keys.directory), str(broker.ca_bundle.parent)} == _mounted(settled, "Deployment", "acme-broker")


def test_restart_hash_covers_exactly_what_a_world_can_not_take_over(settled: Any, a_world: Build) -> None:
    def look() -> tuple[Any, str]:
        text = _config(settled, "tea-world-config", "world.yaml").encode()
        template = settled.get("StatefulSet", "tea-world")["spec"]["template"]
        return parse_settings(text, source="x"), template["metadata"]["annotations"]["demarkus.io/config-hash"]

    before, old_hash = look()
    for spec in (
        {"reads": "public"},
        {"retention": {"keepVersions": 2}},
        {"limits": {"requestTimeout": "1s"}},
        {"limits": {"maxStreams": 3}},
    ):
        settled.put(a_world(**spec))
        settled.settle()
        after, new_hash = look()
        assert bool(changes_needing_restart(before, after)) == (old_hash != new_hash), spec


def test_gateway_reads_its_configuration(settled: Any, a_world: Build) -> None:
    settled.put(a_world(access=ACCESS))
    settled.settle()
    text = _config(settled, "acme-broker-config", "broker.yaml").encode()
    settings = load_broker_settings(text, source="broker.yaml")
    (world,) = settings.worlds
    assert settings.public_url == "https://mark.example.com"
    assert (world.name, world.tls_name, str(world.service)) == (
        "tea",
        "tea.acme.svc",
        "tea-pods.acme.svc.cluster.local:6309",
    )
    assert world.access.readers[0].groups == ("tea",)
    assert world.access.writers[0].operations == ("append",)


def test_token_file_holds_what_the_spec_says(settled: Any, a_world: Build) -> None:
    tokens = [{"name": "robot", "operations": ["read", "append"], "paths": ['/a"b/**', "/**"]}]
    settled.put(a_world(tokens=tokens))
    settled.settle()
    parsed = parse_tokens(_secret(settled, "tea-tokens")["tokens.toml"].decode(), source="tokens.toml")
    found = parsed.find(_secret(settled, "tea-token-robot")["token"].decode())
    assert found is not None
    assert (found.label, found.paths, found.operations) == ("robot", ('/a"b/**', "/**"), {"read", "append"})


def test_empty_token_file_can_be_read(settled: Any) -> None:
    parsed = parse_tokens(_secret(settled, "tea-tokens")["tokens.toml"].decode(), source="tokens.toml")
    assert tuple(parsed.tokens) == ()


def test_world_takes_the_gateways_grants(settled: Any) -> None:
    keys = broker_keys.load(_secret(settled, "acme-broker-keys"), source="keys")
    world = parse_settings(_config(settled, "tea-world-config", "world.yaml").encode(), source="world.yaml")
    audience = f"{world.identity.history}/{world.identity.incarnation}"
    grant = Grant(
        issuer="https://mark.example.com",
        audience=audience,
        subject="s-" + "0" * 32,
        user="rosa@example.com",
        allow=(Allow(operations=frozenset({"read"}), paths=("/**",)),),
        issued_at=1000,
        expires_at=1300,
        kid=keys.grant.kid,
    )
    text = sign_grant(grant, keys.grant.private)
    key_set = KeySet.from_jwks(_config(settled, "tea-world-config", "keys.json").encode())
    assert verify_grant(text, key_set, audience=audience, now=1100).subject == grant.subject


def test_gateway_trusts_the_worlds_certificate(settled: Any) -> None:
    ca = x509.load_pem_x509_certificate(_config(settled, "acme-broker-config", "ca.crt").encode())
    tls = _secret(settled, "tea-tls")
    leaf = x509.load_pem_x509_certificate(tls["tls.crt"])
    leaf.verify_directly_issued_by(ca)
    key: Any = load_pem_private_key(tls["tls.key"], password=None)
    leaf.public_key().verify(key.sign(b"x", ECDSA(SHA256())), b"x", ECDSA(SHA256()))  # type: ignore[union-attr,call-arg,arg-type]
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["tea.acme.svc", "tea.acme.svc.cluster.local"]
