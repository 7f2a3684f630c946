"""What holds for every valid World and Universe."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demarkus_operator.api.check import problems
from demarkus_operator.plan.objects import Generate, Plan, Ref
from demarkus_operator.plan.universe import universe_reads
from demarkus_operator.plan.world import plan_world, world_reads
from tests.operator.issuer import Issuer, answer
from tests.operator.random_specs import made_by_others, specs

Build = Callable[..., dict[str, Any]]

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", fullmatch=True)
NAMESPACES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
SPECS = specs("World", without=("universeRef",))

anything = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    else:
        yield str(value)


def _plain(plan: Plan) -> str:
    """All of a plan as text. Recipes count by their repr, which hides keys."""

    def default(value: Any) -> Any:
        assert isinstance(value, Generate)
        return [value.manifest, repr(value.recipe)]

    return json.dumps([plan.generate, plan.apply, str(plan.conditions), plan.status], default=default)


@anything
@given(name=NAMES, namespace=NAMESPACES, spec=SPECS, alone=st.booleans())
def test_every_valid_world_is_realised(
    a_cluster: Callable[[], Any],
    a_world: Build,
    a_universe: Build,
    name: str,
    namespace: str,
    spec: dict[str, Any],
    alone: bool,
) -> None:
    reference = None if alone else {"name": "acme", "namespace": "acme"}
    world = a_world(name, namespace, universeRef=reference, **spec)
    assert problems(world) == ()
    cluster = a_cluster()
    cluster.put(a_universe(worlds={"allowedNamespaces": {"selector": {}}}))
    cluster.put(world)
    others = {cluster.put(manifest) for manifest in made_by_others(spec, namespace)}
    cluster.settle()
    assert cluster.condition("World", name, namespace=namespace)[1] in ("Starting", "Suspended")

    observed = dict(cluster.objects)
    live = cluster.get("World", name, namespace)
    plans = {_plain(plan_world(live, observed, cluster.site, cluster.now)) for _ in range(2)}
    assert plans == {_plain(cluster.plan("World", name, namespace))}, "the same input gave another plan"

    secrets = {
        base64.b64decode(value)
        for ref, manifest in cluster.objects.items()
        if ref.kind == "Secret" and ref not in others
        for key, value in manifest["data"].items()
        if not key.endswith(".crt") and key not in ("history", "incarnation", "tokens.toml")
    }
    assert secrets
    for ref, manifest in cluster.objects.items():
        if ref in others:
            continue
        assert len(ref.name) <= 253
        assert len(ref.name) <= 63 or ref.kind == "Secret"
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", ref.name)
        for value in manifest["metadata"].get("labels", {}).values():
            assert len(value) <= 63
        if ref.kind != "Secret":
            said = "\n".join(_texts(manifest))
            assert not any(secret.decode() in said for secret in secrets), ref


@anything
@given(names=st.lists(NAMES, min_size=2, max_size=4, unique=True), seed=st.randoms(use_true_random=False))
def test_worlds_are_realised_in_any_order(
    a_cluster: Callable[[], Any], a_world: Build, a_universe: Build, names: list[str], seed: Any
) -> None:
    manifests = [a_universe(), *(a_world(name) for name in names)]
    seed.shuffle(manifests)
    cluster = a_cluster()
    for manifest in manifests:
        cluster.put(manifest)
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        cluster.reconcile(kind, name)
    cluster.settle()
    reasons = {name: cluster.condition("World", name)[1] for name in names}
    # Names such as `a` and `a-pods` want the same Service; then one of them is told so.
    assert set(reasons.values()) <= {"Starting", "NameInUse"}
    assert "Starting" in reasons.values()


@functools.cache
def issuer(now: datetime) -> Issuer:
    """One for all."""
    return Issuer("corporate", now)


@anything
@given(spec=specs("Universe"))
def test_every_valid_universe_is_realised(
    a_cluster: Callable[[], Any], a_world: Build, a_universe: Build, spec: dict[str, Any]
) -> None:
    cluster = a_cluster()
    cluster.put(a_universe(**spec))
    cluster.put(a_world())
    for manifest in made_by_others(spec, "acme"):
        cluster.put(manifest)
    cluster.settle()
    for ref in [ref for ref in cluster.objects if ref.kind == "Certificate"]:
        answer(cluster, issuer(cluster.now), ref.name)
    cluster.settle()
    assert cluster.condition("Universe", "acme")[1] == "Starting"
    assert cluster.condition("Universe", "acme", "Degraded")[1] == "AsAsked"
    assert cluster.condition("World", "tea")[1] == "Starting"
    assert _plain(cluster.plan("Universe", "acme")) == _plain(cluster.plan("Universe", "acme"))


def test_plan_applies_only_what_it_looked_at(settled: Any) -> None:
    for kind, name, reads in (("World", "tea", world_reads), ("Universe", "acme", universe_reads)):
        looked_at = set(reads(settled.get(kind, name), settled.site))
        assert {Ref.of(manifest) for manifest in settled.plan(kind, name).apply} <= looked_at
