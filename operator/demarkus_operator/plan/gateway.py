"""The configuration of a gateway, as far as it can be had; what can't be is told, and the one before stays in force."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from demarkus_operator.api.gateway import WebClient
from demarkus_operator.api.universe import UniverseSpec
from demarkus_operator.plan import references, size
from demarkus_operator.plan.children import broker_config
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.objects import Manifest, Observed
from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.workload import Finding


def document_of(
    spec: UniverseSpec, names: UniverseNames, routes: Sequence[dict[str, Any]], observed: Observed
) -> tuple[dict[str, Any], list[Finding]]:
    """The content of broker.yaml, and what of the spec could not be had."""
    known = known_settings(observed.get(names.config))
    clients: list[dict[str, Any]] = []
    findings: list[Finding] = []
    for index, client in enumerate((spec.broker and spec.broker.web_clients) or ()):
        entry = client.model_dump(by_alias=True, exclude_none=True, exclude={"secret_ref"})
        try:
            entry["secretHash"] = _hash(client, names.namespace, observed, f"spec.broker.webClients[{index}].secretRef")
        except Refusal as refusal:
            findings.append((refusal.reason, refusal.message))
            before = {one.get("clientID"): one.get("secretHash") for one in known.get("webClients") or ()}
            if not before.get(client.client_id):
                continue
            entry["secretHash"] = before[client.client_id]
        clients.append(entry)
    if spec.identity is not None:
        source = spec.identity.client_secret_ref
        ref = references.secret(names.namespace, source.name)
        try:
            references.secret_bytes(observed, ref, source.key, "spec.identity.clientSecretRef")
        except Refusal as refusal:
            findings.append((refusal.reason, refusal.message))
    return broker_config.settings(spec, routes, clients), findings


def too_large(config: Manifest, routes: Sequence[Mapping[str, Any]]) -> Iterable[Finding]:
    """Whether the ConfigMap would not be taken."""
    largest = max(routes, key=lambda entry: len(str(entry)), default=None)
    help_ = "let several Universes share the Worlds"
    if largest is not None:
        help_ = (
            f"the largest part is the access of World {largest['namespace']}/{largest['name']}: name groups or domains "
            f"in place of many e-mail addresses, or {help_}"
        )
    try:
        size.check_size(config, help_)
    except Refusal as refusal:
        yield refusal.reason, refusal.message


def known_settings(config: Manifest | None) -> Mapping[str, Any]:
    """The content of broker.yaml as it is; empty if it can't be read."""
    text = ((config or {}).get("data") or {}).get(broker_config.CONFIG_FILE, "")
    try:
        document = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return {}
    return document if isinstance(document, dict) else {}


def _hash(client: WebClient, namespace: str, observed: Observed, place: str) -> str:
    if client.secret_ref is None:
        return str(client.secret_hash)
    ref = references.secret(namespace, client.secret_ref.name)
    return hashlib.sha256(references.secret_bytes(observed, ref, client.secret_ref.key, place)).hexdigest()
