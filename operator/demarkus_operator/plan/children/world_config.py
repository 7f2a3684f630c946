"""ConfigMap of a World: world.yaml, and the key sets by which it verifies grants and calls of the operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demarkus_operator.api import quantities
from demarkus_operator.api.limits import Limits
from demarkus_operator.api.tokens import TokenFile
from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan.children import pods
from demarkus_operator.plan.children.world_secrets import TOKENS_FILE
from demarkus_operator.plan.children.yaml_text import digest, yaml_text
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.owner import Owner

CONFIG_FILE = "world.yaml"
KEY_SET_FILE = "keys.json"
MANAGEMENT_FILE = "management.json"

_TAKEN_OVER_LIVE = ("reads", "limits", "log", "policy", "seed", "expect", "retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which history the World serves, and in which of its lives."""

    history: str
    incarnation: str


def settings(
    owner: Owner,
    spec: WorldSpec,
    identity: Identity,
    *,
    seeds: Sequence[Mapping[str, Any]] = (),
    expect: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The content of world.yaml. A World without a Universe has no key set, and so takes no grants.

    `seeds` are those of the spec with their texts; `expect` is the store that has to be there, None where one may be
    made.
    """
    document: dict[str, Any] = {
        "name": owner.name,
        "identity": {
            "history": identity.history,
            "incarnation": identity.incarnation,
            "keyFile": f"{pods.IDENTITY}/world.key",
        },
        **_store(spec),
        "reads": spec.reads or ("scoped" if spec.universe_ref is None else "universe"),
        "history": spec.history or "protected",
    }
    if spec.retention is not None:
        document["retention"] = spec.retention.model_dump(by_alias=True, exclude_none=True)
    if spec.limits is not None:
        document["limits"] = _limits(spec.limits)
    if spec.policy is not None:
        document["policy"] = spec.policy.model_dump(by_alias=True, exclude_none=True)
    if seeds:
        document["seed"] = [dict(seed) for seed in seeds]
    document["listen"] = {
        "mark": f"0.0.0.0:{pods.MARK_PORT}",
        "health": f"0.0.0.0:{pods.HEALTH_PORT}",
        "management": f"0.0.0.0:{pods.MANAGEMENT_PORT}",
    }
    document["tls"] = {"certificate": f"{pods.TLS}/tls.crt", "key": f"{pods.TLS}/tls.key"}
    files = [f"{token_file_folder(file)}/{file.secret_ref.key}" for file in spec.token_files or ()]
    document["tokens"] = [f"{pods.TOKENS}/{TOKENS_FILE}", *files]
    if spec.universe_ref is not None:
        document["keySet"] = f"{pods.CONFIG}/{KEY_SET_FILE}"
    document["managementKeys"] = f"{pods.CONFIG}/{MANAGEMENT_FILE}"
    if expect is not None:
        document["expect"] = expect
    document["log"] = {"level": "info"}
    return document


def token_file_folder(file: TokenFile) -> str:
    """Where the Secret of a token file is mounted."""
    return f"{pods.TOKEN_FILES}/{file.secret_ref.name}"


def _store(spec: WorldSpec) -> dict[str, Any]:
    bucket = spec.store.bucket
    if bucket is None:
        return {"store": {"directory": pods.STORE}}
    return {"store": {"gcs": {"url": bucket.url}}, "view": {"directory": f"{pods.STORE}/view"}}


def _limits(limits: Limits) -> dict[str, Any]:
    found = limits.model_dump(by_alias=True, exclude_none=True)
    if limits.max_bytes is not None:
        found["maxBytes"] = quantities.number_of_bytes(limits.max_bytes)
    return found


def restart_hash(document: dict[str, Any]) -> str:
    """A hash of the settings that a running world does not take over: when it changes, the pod is replaced."""
    fixed = {key: value for key, value in document.items() if key not in _TAKEN_OVER_LIVE}
    fixed["maxStreams"] = document.get("limits", {}).get("maxStreams")
    return digest(fixed)


def config(
    owner: Owner, names: WorldNames, document: dict[str, Any], key_set: str | None, management_keys: str
) -> dict[str, Any]:
    """The ConfigMap. `key_set` is the text of keys.json, None without a Universe; `management_keys` that of
    management.json.
    """
    data = {CONFIG_FILE: yaml_text(document), MANAGEMENT_FILE: management_keys}
    if key_set is not None:
        data[KEY_SET_FILE] = key_set
    return owner.owned(names.config, {"data": data})
