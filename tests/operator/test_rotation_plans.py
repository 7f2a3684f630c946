"""Keys, authorities, certificates and tokens through their exchange, as plans of a Universe and its World.

Processes are played: each has loaded what lay in the cluster at some time, says so, and may be behind for as long as it
likes. Whether a credential is good is asked of the code that asks it in earnest.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from demarkus_base.settings import content_digest
from demarkus_broker import keys as broker_keys
from demarkus_operator.plan.reports import Report
from mark_protocol.grants import Allow, Grant, KeySet, sign_grant, verify_grant
from mark_protocol.tokens import parse_tokens

Build = Callable[..., dict[str, Any]]
TOKENS = [{"name": "importer", "operations": ["read"], "paths": ["/**"], "rotateEvery": "90d"}]
AUDIENCE = f"{'0a' * 16}/{'1b' * 16}"
DAYS = timedelta(days=1)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def secret(cluster: Any, name: str, namespace: str = "acme") -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in cluster.get("Secret", name, namespace)["data"].items()}


def config(cluster: Any, name: str) -> dict[str, bytes]:
    return {key: value.encode() for key, value in cluster.get("ConfigMap", name)["data"].items()}


@dataclass
class Gateway:
    """A process of the gateway: the keys and the bundle that it has read."""

    pod: str
    keys: Mapping[str, bytes] = field(default_factory=dict)
    bundle: bytes = b""
    ready: bool = True

    def load(self, cluster: Any) -> None:
        self.keys = secret(cluster, "acme-broker-keys")
        self.bundle = config(cluster, "acme-broker-config")["ca.crt"]

    def report(self) -> Report:
        keys = content_digest([self.keys[name] for name in sorted(self.keys)])
        return Report(pod=self.pod, ready=self.ready, loaded={"keys": keys, "caBundle": sha256(self.bundle)})

    def grant(self, now: datetime) -> str:
        """A grant as it signs one."""
        signer, second = broker_keys.load(self.keys, source="keys").grant, int(now.timestamp())
        grant = Grant(
            issuer="https://mark.example.com",
            audience=AUDIENCE,
            subject="s-" + "0" * 32,
            user=None,
            allow=(Allow(frozenset({"read"}), ("/**",)),),
            issued_at=second,
            expires_at=second + 300,
            kid=signer.kid,
        )
        return sign_grant(grant, signer.private)


@dataclass
class World:
    """A process of the World: the key set, the tokens and the certificate that it has read."""

    pod: str
    key_set: bytes = b""
    tokens: bytes = b""
    tls: tuple[bytes, bytes] = (b"", b"")
    used: dict[str, int] = field(default_factory=dict)
    ready: bool = True

    def load(self, cluster: Any) -> None:
        self.key_set = config(cluster, "tea-world-config")["keys.json"]
        self.tokens = secret(cluster, "tea-tokens")["tokens.toml"]
        found = secret(cluster, "tea-tls")
        self.tls = found["tls.crt"], found["tls.key"]
        now = int(cluster.now.timestamp() * 1000)
        labels = [token.label for token in parse_tokens(self.tokens.decode(), source="tokens.toml").tokens]
        self.used = {label: self.used.get(label, now) for label in labels}

    def report(self) -> Report:
        loaded = {"keySet": sha256(self.key_set), "tokens": sha256(self.tokens), "tls": content_digest(list(self.tls))}
        return Report(pod=self.pod, ready=self.ready, loaded=loaded, used=dict(self.used), incarnation="1b" * 16)

    def takes(self, grant: str, now: datetime) -> bool:
        verify_grant(grant, KeySet.from_jwks(self.key_set), audience=AUDIENCE, now=int(now.timestamp()))
        return True

    def accepts(self, token: str) -> bool:
        return parse_tokens(self.tokens.decode(), source="tokens.toml").find(token) is not None


@dataclass
class Stage:
    """A cluster with two processes of the gateway and two of the World."""

    cluster: Any
    gateways: list[Gateway] = field(default_factory=lambda: [Gateway("b-0"), Gateway("b-1")])
    worlds: list[World] = field(default_factory=lambda: [World("w-0"), World("w-1")])

    @property
    def processes(self) -> list[Gateway | World]:
        return [*self.gateways, *self.worlds]

    def settle(self) -> None:
        """The operator looks at everything until it has nothing to do."""
        self.cluster.reports = {
            "acme": [one.report() for one in self.gateways],
            "tea": [one.report() for one in self.worlds],
        }
        self.cluster.settle()

    def look(self, kind: str, name: str) -> None:
        """The operator looks at one object."""
        self.cluster.reports = {
            "acme": [one.report() for one in self.gateways],
            "tea": [one.report() for one in self.worlds],
        }
        self.cluster.reconcile(kind, name)

    def load(self, *who: Gateway | World) -> None:
        """These, or all, read their files, and the operator looks again."""
        for one in who or self.processes:
            one.load(self.cluster)
        self.settle()

    def kids(self, kind: str) -> set[str]:
        found = secret(self.cluster, "acme-broker-keys")
        return {name for name in found if name.startswith(f"{kind}-")}

    def signing(self) -> bytes:
        return secret(self.cluster, "acme-broker-keys")["signing.json"]

    def token(self) -> str:
        return secret(self.cluster, "tea-token-importer")["token"].decode()

    def authorities(self) -> set[str]:
        return set(secret(self.cluster, "ca-acme-acme", "demarkus-system"))

    def issuer(self) -> bytes:
        """The key of the authority that signed what the World is to show."""
        leaf = x509.load_pem_x509_certificate(secret(self.cluster, "tea-tls")["tls.crt"])
        extension = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
        assert extension.key_identifier is not None
        return extension.key_identifier


@pytest.fixture
def stage(settled: Any, a_world: Build, a_universe: Build) -> Stage:
    settled.put(a_universe(trust={"rotateEvery": "90d"}))
    settled.put(a_world(tokens=TOKENS))
    settled.settle()
    for kind, name in (("StatefulSet", "tea-world"), ("Deployment", "acme-broker")):
        settled.set_status(kind, name, {"readyReplicas": 2, "replicas": 2, "updatedReplicas": 2})
    found = Stage(settled)
    found.load()
    found.settle()
    return found


def test_nothing_is_exchanged_before_its_time(stage: Stage) -> None:
    before = stage.cluster.objects
    stage.cluster.now += 59 * DAYS
    stage.settle()
    assert stage.cluster.objects == before


def test_grant_key_waits_for_every_world_and_the_old_one_for_every_gateway(stage: Stage) -> None:
    old = stage.signing()
    stage.cluster.now += 91 * DAYS
    stage.settle()
    assert (len(stage.kids("grant")), len(stage.kids("broker"))) == (2, 2)
    stage.load(stage.worlds[0], *stage.gateways)
    assert b'"grant": "%s"' % old.split(b'"')[7] in stage.signing(), "one World has not loaded it"
    status, reason, message = stage.cluster.condition("Universe", "acme", "Progressing")
    assert (status, reason) == ("True", "KeysRotating")
    assert "the next key for grants is used once everybody who checks has loaded it" in message
    assert "not yet: World acme/tea" in message
    assert "not yet: pod w-1" in stage.cluster.condition("World", "tea", "Progressing")[2]
    stage.load(stage.worlds[1])
    assert old.split(b'"')[7] not in stage.signing()
    stage.load(stage.gateways[0])
    stage.cluster.now += timedelta(hours=1)
    stage.settle()
    assert len(stage.kids("grant")) == 2, "one process of the gateway still signs with the old one"
    stage.load(stage.gateways[1])
    stage.cluster.now += timedelta(minutes=6)
    stage.settle()
    assert len(stage.kids("grant")) == 2, "what the old one signed may still be good"
    stage.cluster.now += timedelta(minutes=2)
    stage.settle()
    assert len(stage.kids("grant")) == 1
    assert len(stage.kids("broker")) == 2, "bearers live longer"
    stage.load()
    stage.cluster.now += timedelta(hours=12)
    stage.load()
    assert len(stage.kids("broker")) == 1
    assert stage.cluster.condition("Universe", "acme", "Progressing")[1] == "Settled"


def test_world_that_does_not_serve_is_not_waited_for_and_one_that_does_not_answer_is(stage: Stage) -> None:
    stage.cluster.now += 91 * DAYS
    stage.settle()
    old = stage.signing()
    stage.worlds[1].ready = False
    stage.cluster.reports["tea"] = [stage.worlds[0].report(), Report(pod="w-1", reached=False, ready=True)]
    stage.worlds[0].load(stage.cluster)
    stage.cluster.reports["tea"] = [stage.worlds[0].report(), Report(pod="w-1", reached=False, ready=True)]
    stage.cluster.settle()
    assert stage.signing() == old
    stage.load(stage.worlds[0], *stage.gateways)
    assert stage.signing() != old


def test_authority_is_trusted_before_it_signs_and_as_long_as_it_is_shown(stage: Stage) -> None:
    stage.cluster.now += 91 * DAYS
    stage.settle()
    assert stage.authorities() == {"ca.crt", "ca.key", "next.crt", "next.key"}
    before = stage.issuer()
    assert config(stage.cluster, "acme-broker-config")["ca.crt"].count(b"BEGIN") == 2
    stage.load(stage.gateways[0], *stage.worlds)
    assert stage.issuer() == before
    stage.load(stage.gateways[1])
    assert stage.authorities() == {"ca.crt", "ca.key", "previous.crt"}
    assert stage.issuer() != before
    assert secret(stage.cluster, "tea-tls")["ca.crt"].count(b"BEGIN") == 2
    stage.load(stage.worlds[0])
    stage.cluster.now += timedelta(hours=1)
    stage.settle()
    assert "previous.crt" in stage.authorities(), "one process still shows the old certificate"
    stage.load()
    stage.cluster.now += timedelta(minutes=3)
    stage.settle()
    assert stage.authorities() == {"ca.crt", "ca.key"}
    assert secret(stage.cluster, "tea-tls")["ca.crt"].count(b"BEGIN") == 1


def test_token_changes_once_the_world_knows_the_next_and_the_old_one_goes_when_nobody_uses_it(stage: Stage) -> None:
    old = stage.token()
    stage.cluster.now += 91 * DAYS
    stage.settle()
    stage.load(stage.worlds[0])
    assert stage.token() == old, "one process would refuse the next one"
    stage.load(stage.worlds[1])
    new = stage.token()
    assert new != old
    assert secret(stage.cluster, "tea-token-importer").keys() == {"token", "previous"}
    stage.load()
    stage.cluster.now += timedelta(hours=25)
    stage.worlds[0].used["importer.previous"] = int((stage.cluster.now - timedelta(minutes=30)).timestamp() * 1000)
    stage.settle()
    assert all(world.accepts(old) and world.accepts(new) for world in stage.worlds)
    stage.cluster.now += timedelta(minutes=31)
    stage.settle()
    stage.load()
    assert not any(world.accepts(old) for world in stage.worlds)
    assert all(world.accepts(new) for world in stage.worlds)


def test_token_that_is_used_for_ever_goes_after_a_week(stage: Stage) -> None:
    old = stage.token()
    stage.cluster.now += 91 * DAYS
    stage.settle()
    stage.load()
    for _ in range(8):
        stage.cluster.now += DAYS
        for world in stage.worlds:
            world.used["importer.previous"] = int(stage.cluster.now.timestamp() * 1000)
        stage.load()
    assert not any(world.accepts(old) for world in stage.worlds)


@pytest.mark.parametrize("kind", ["grant", "broker"])
def test_revoked_key_goes_at_once(stage: Stage, a_universe: Build, kind: str) -> None:
    (kid,) = (name.removeprefix(f"{kind}-").removesuffix(".pem") for name in stage.kids(kind))
    universe = a_universe(trust={"rotateEvery": "90d"})
    universe["metadata"]["annotations"] = {"demarkus.io/revoke-key": f"{kid},nobody"}
    stage.cluster.put(universe)
    stage.settle()
    assert len(stage.kids(kind)) == 1
    assert kid.encode() not in stage.signing()
    assert kid.encode() not in config(stage.cluster, "tea-world-config")["keys.json"]


def test_revoked_token_goes_at_once(stage: Stage, a_world: Build) -> None:
    old = stage.token()
    world = a_world(tokens=TOKENS)
    hashed = "sha256-" + sha256(old.encode())
    world["metadata"]["annotations"] = {"demarkus.io/revoke-key": hashed}
    stage.cluster.put(world)
    stage.settle()
    assert stage.token() != old
    assert hashed.encode() not in secret(stage.cluster, "tea-tokens")["tokens.toml"]
    stage.load()
    assert all(one.accepts(stage.token()) and not one.accepts(old) for one in stage.worlds)


def test_revoked_authority_is_replaced_and_goes_at_once(stage: Stage, a_universe: Build) -> None:
    before = stage.issuer()
    universe = a_universe(trust={"rotateEvery": "90d"})
    kid = stage.cluster.get("World", "tea")["status"]["loaded"]["authority"]
    universe["metadata"]["annotations"] = {"demarkus.io/revoke-key": kid}
    stage.cluster.put(universe)
    stage.settle()
    assert stage.authorities() == {"ca.crt", "ca.key"}
    assert stage.issuer() != before


def test_pod_that_is_behind_is_told_once_to_look_at_its_volumes(stage: Stage) -> None:
    stage.cluster.now += 61 * DAYS
    stage.settle()
    behind, other = stage.worlds[0].report(), dataclasses.replace(stage.worlds[1].report(), ready=False)
    behind = dataclasses.replace(behind, resource_version="7")
    stage.cluster.reports["tea"] = [behind, dataclasses.replace(other, resource_version="8")]
    (change,) = stage.cluster.plan("World", "tea").change
    assert (change.ref.kind, change.ref.name, change.resource_version) == ("Pod", "w-0", "7")
    state = change.patch["metadata"]["annotations"]["demarkus.io/synced"]
    stage.cluster.reports["tea"] = [dataclasses.replace(behind, synced=state)]
    plan = stage.cluster.plan("World", "tea")
    assert (plan.change, plan.requeue) == ((), 10.0)


# Whatever happens


@pytest.mark.parametrize("seed", range(3))
def test_nobody_is_refused_whoever_is_behind(stage: Stage, a_universe: Build, a_world: Build, seed: int) -> None:
    """Processes load, restart and fall behind, the operator looks at this or that, time passes, in any order."""
    chance = random.Random(seed)
    stage.cluster.put(a_universe(trust={"rotateEvery": "1d"}))
    stage.cluster.put(a_world(tokens=[{**TOKENS[0], "rotateEvery": "1d"}]))
    signed: list[tuple[str, datetime]] = []
    met: dict[str, set[Any]] = {"signing": set(), "issuer": set(), "token": set()}
    for number in range(240):
        match chance.randrange(5):
            case 0:
                stage.cluster.now += timedelta(hours=chance.choice([0.01, 0.05, 0.2, 13, 25]))
            case 1 | 2:
                chance.choice(stage.processes).load(stage.cluster)
            case 3:
                stage.look("World", "tea")
            case _:
                stage.look("Universe", "acme")
        now = stage.cluster.now
        signed = [(text, until) for text, until in signed if until > now]
        gateway, world = chance.choice(stage.gateways), chance.choice(stage.worlds)
        signed.append((gateway.grant(now), now + timedelta(seconds=300)))
        assert all(world.takes(text, now) for text, _ in signed), number
        assert world.accepts(stage.token()), number
        assert any(vouches(pem, world.tls[0]) for pem in split(gateway.bundle)), number
        for what, seen in met.items():
            seen.add(getattr(stage, what)())
    assert {what for what, seen in met.items() if len(seen) < 3} == set(), "too little was exchanged to tell anything"


def split(bundle: bytes) -> list[bytes]:
    return [part + b"-----END CERTIFICATE-----\n" for part in bundle.split(b"-----END CERTIFICATE-----\n") if part]


def vouches(authority: bytes, leaf: bytes) -> bool:
    try:
        x509.load_pem_x509_certificate(leaf).verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    except (InvalidSignature, ValueError):
        return False
    return True
