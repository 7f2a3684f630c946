"""Random valid specs are taken by the real API server, and so is everything that is planned from them.

Nothing is stored: the API server is asked what it would make of them, with strict validation of fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demarkus_operator.api.check import KINDS
from demarkus_operator.cluster.apply import difference
from demarkus_operator.plan.objects import Manifest, Ref
from dev.cluster.plane import ControlPlane
from tests.operator.conftest import Cluster, universe, world
from tests.operator.random_specs import made_by_others, specs

AT_ONCE = 4
"""Worlds and Universes that are asked about with one call."""
OF_SERVER = ("uid", "creationTimestamp", "resourceVersion")
NAMESPACE = "default"

some = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))


def would_take(plane: ControlPlane, manifests: Iterable[Manifest]) -> None:
    """Asks the API server about all of these; what it would make of them is what was said, to the last spelling."""
    said = [{**one, "metadata": without(one["metadata"], OF_SERVER)} for one in manifests]
    items = [without(item, ("status",)) for item in said]
    arguments = ["apply", "--server-side", "--force-conflicts", "--field-manager=demarkus-operator", "--output=json"]
    arguments += ["--show-managed-fields", "--dry-run=server", "--validate=strict", "--filename=-"]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    done = plane.kubectl(*arguments, input=listed, check=False)
    assert done.returncode == 0, done.stderr
    made = {Ref.of(one): one for one in json.loads(done.stdout)["items"]}
    children = {Ref.of(item): item for item in items if item["kind"] not in KINDS}
    changes = {str(ref): difference(made[ref], child) for ref, child in children.items()}
    assert {ref: change for ref, change in changes.items() if change} == {}, "an apply of the same would be no rest"


def without(mapping: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


def planned(cluster: Cluster, kind: str, name: str) -> Iterator[Manifest]:
    """The World or Universe, what is generated for it and what is applied; the plan is the same each time."""
    subject = cluster.get(kind, name, NAMESPACE)
    plan = cluster.plan(kind, name, NAMESPACE)
    assert plan == cluster.plan(kind, name, NAMESPACE)
    assert not plan.generate
    assert plan.apply, cluster.condition(kind, name, namespace=NAMESPACE)
    yield subject
    applied = {Ref.of(manifest) for manifest in plan.apply}
    # The Gateway API is not part of Kubernetes.
    yield from (manifest for manifest in plan.apply if manifest["kind"] != "HTTPRoute")
    for ref, manifest in cluster.objects.items():
        if ref.kind == "Secret" and ref.name.startswith(f"{name}-") and ref not in applied:
            yield manifest


@some
@given(drawn=st.lists(st.tuples(specs("World", without=("universeRef",)), st.booleans()), min_size=1, max_size=AT_ONCE))
def test_every_valid_world_and_its_children_are_taken(
    plane: ControlPlane, drawn: list[tuple[dict[str, Any], bool]]
) -> None:
    found: list[Manifest] = []
    for number, (spec, alone) in enumerate(drawn):
        cluster, name = Cluster(), f"w{number}"
        cluster.put(universe("acme", NAMESPACE))
        reference = None if alone else {"name": "acme", "namespace": NAMESPACE}
        cluster.put(world(name, NAMESPACE, universeRef=reference, **spec))
        for manifest in made_by_others(spec, NAMESPACE):
            cluster.put(manifest)
        cluster.settle()
        found += planned(cluster, "World", name)
    would_take(plane, found)


@some
@given(drawn=st.lists(specs("Universe"), min_size=1, max_size=AT_ONCE))
def test_every_valid_universe_and_its_children_are_taken(plane: ControlPlane, drawn: list[dict[str, Any]]) -> None:
    found: list[Manifest] = []
    for number, spec in enumerate(drawn):
        cluster, name = Cluster(), f"u{number}"
        cluster.put(universe(name, NAMESPACE, **spec))
        for manifest in made_by_others(spec, NAMESPACE):
            cluster.put(manifest)
        cluster.settle()
        found += planned(cluster, "Universe", name)
    would_take(plane, found)
