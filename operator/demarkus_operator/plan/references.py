"""Objects that a spec names and that somebody else makes. What is not there is told; nothing is changed meanwhile."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from demarkus_operator.api.conditions import Reason
from demarkus_operator.api.universe import UniverseSpec
from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan.objects import Observed, Ref
from demarkus_operator.plan.refusal import Refusal


def config_map(namespace: str, name: str) -> Ref:
    """A ConfigMap."""
    return Ref("v1", "ConfigMap", namespace, name)


def secret(namespace: str, name: str) -> Ref:
    """A Secret."""
    return Ref("v1", "Secret", namespace, name)


def of_world(spec: WorldSpec, namespace: str) -> Iterable[Ref]:
    """What the spec of a World names."""
    for seed in spec.seed or ():
        if seed.config_map_key_ref is not None:
            yield config_map(namespace, seed.config_map_key_ref.name)
    for file in spec.token_files or ():
        yield secret(namespace, file.secret_ref.name)


def of_universe(spec: UniverseSpec, namespace: str) -> Iterable[Ref]:
    """What the spec of a Universe names."""
    if spec.identity is not None:
        yield secret(namespace, spec.identity.client_secret_ref.name)
    for client in (spec.broker and spec.broker.web_clients) or ():
        if client.secret_ref is not None:
            yield secret(namespace, client.secret_ref.name)


def text(observed: Observed, ref: Ref, key: str, place: str) -> str:
    """A field of a ConfigMap. `place` is the field of the spec that names it. Raises Refusal."""
    found = observed.get(ref)
    value = None if found is None else (found.get("data") or {}).get(key)
    if not isinstance(value, str) or not value:
        raise missing(ref, key, place)
    return value


def secret_bytes(observed: Observed, ref: Ref, key: str, place: str) -> bytes:
    """A field of a Secret. Raises Refusal."""
    found = observed.get(ref)
    value = None if found is None else (found.get("data") or {}).get(key)
    try:
        data = base64.b64decode(value or "", validate=True)
    except binascii.Error:
        data = b""
    if not data:
        raise missing(ref, key, place)
    return data


def missing(ref: Ref, key: str, place: str) -> Refusal:
    """What to say of a field that is not there."""
    return Refusal(
        Reason.REFERENCE_MISSING, f"{place}: {ref} with the key {key} is not there; make it, or correct {place}"
    )
