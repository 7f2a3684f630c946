"""ConfigMap of a World: world.yaml, and the key set by which it verifies grants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan.children import pods
from demarkus_operator.plan.children.world_secrets import TOKENS_FILE
from demarkus_operator.plan.children.yaml_text import digest, yaml_text
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.owner import Owner

CONFIG_FILE = "world.yaml"
KEY_SET_FILE = "keys.json"

_TAKEN_OVER_LIVE = ("reads", "limits", "log", "policy", "seed", "expect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which history the World serves, and in which of its lives."""

    history: str
    incarnation: str


def settings(
    owner: Owner, spec: WorldSpec, identity: Identity, *, expect: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The content of world.yaml. A World without a Universe has no key set, and so takes no grants.

    `expect` is the store that has to be there; None where one may be made.
    """
    document: dict[str, Any] = {
        "name": owner.name,
        "identity": {
            "history": identity.history,
            "incarnation": identity.incarnation,
            "keyFile": f"{pods.IDENTITY}/world.key",
        },
        "store": {"directory": pods.STORE},
        "reads": spec.reads or ("scoped" if spec.universe_ref is None else "universe"),
        "history": spec.history or "protected",
    }
    if spec.limits is not None:
        document["limits"] = spec.limits.model_dump(by_alias=True, exclude_none=True)
    if spec.policy is not None:
        document["policy"] = spec.policy.model_dump(by_alias=True, exclude_none=True)
    if spec.seed:
        document["seed"] = [seed.model_dump(by_alias=True, exclude_none=True) for seed in spec.seed]
    document["listen"] = {"mark": f"0.0.0.0:{pods.MARK_PORT}", "health": f"0.0.0.0:{pods.HEALTH_PORT}"}
    document["tls"] = {"certificate": f"{pods.TLS}/tls.crt", "key": f"{pods.TLS}/tls.key"}
    document["tokens"] = [f"{pods.TOKENS}/{TOKENS_FILE}"]
    if spec.universe_ref is not None:
        document["keySet"] = f"{pods.CONFIG}/{KEY_SET_FILE}"
    if expect is not None:
        document["expect"] = expect
    document["log"] = {"level": "info"}
    return document


def restart_hash(document: dict[str, Any]) -> str:
    """A hash of the settings that a running world does not take over: when it changes, the pod is replaced."""
    fixed = {key: value for key, value in document.items() if key not in _TAKEN_OVER_LIVE}
    fixed["maxStreams"] = document.get("limits", {}).get("maxStreams")
    return digest(fixed)


def config(owner: Owner, names: WorldNames, document: dict[str, Any], key_set: str | None) -> dict[str, Any]:
    """The ConfigMap. `key_set` is the text of keys.json, None without a Universe."""
    data = {CONFIG_FILE: yaml_text(document)}
    if key_set is not None:
        data[KEY_SET_FILE] = key_set
    return owner.owned(names.config, {"data": data})
