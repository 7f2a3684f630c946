"""The few words of a pod's configuration that are different on loopback.

`world.yaml` and `broker.yaml` come out of the plan as a pod would read them. A process on this machine needs three
things otherwise: paths below its own folder instead of a container's root, loopback ports to listen on, and loopback
addresses (and the gateway's URL) to dial. Everything else passes untouched. Pure: values in, text out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from demarkus_operator.local.manifests import Loader

_PATHS: Mapping[str, Sequence[Sequence[str]]] = {
    "world.yaml": (
        ("identity", "keyFile"),
        ("store", "directory"),
        ("view", "directory"),
        ("tls", "certificate"),
        ("tls", "key"),
        ("tokens",),
        ("keySet",),
        ("managementKeys",),
    ),
    "broker.yaml": (
        ("keys", "directory"),
        ("caBundle",),
        ("identity", "clientSecretFile"),
        ("state", "directory"),
    ),
}
"""The fields that hold a path, or a list of paths, by configuration file."""


@dataclass(frozen=True, slots=True)
class Loopback:
    """What a process has instead of a container and a cluster network."""

    mounts: Mapping[str, Path]
    """Mount path in the container -> folder on this machine."""
    listen: Mapping[str, str]
    """Name under `listen` -> host:port."""
    public_url: str | None = None
    addresses: Callable[[str], Sequence[str]] = lambda service: ()
    """A cluster service as host:port -> the addresses that answer for it here."""

    def path(self, text: str) -> str:
        """A path in the container as a path on this machine; other text passes."""
        for mount, folder in self.mounts.items():
            if text == mount or text.startswith(f"{mount}/"):
                return str(folder) + text.removeprefix(mount)
        return text


def is_config(name: str) -> bool:
    """Whether a mounted file of this name is one that `localised` changes."""
    return name in _PATHS


def localised(name: str, text: str, loopback: Loopback) -> str:
    """The configuration file `name` for a process on this machine. Raises ValueError if it is not YAML of a mapping."""
    try:
        config = yaml.load(text, Loader=Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"{name}: not YAML") from error
    if not isinstance(config, dict):
        raise ValueError(f"{name}: not a mapping")
    for field in _PATHS[name]:
        _change(config, field, loopback.path)
    config["listen"] = dict(loopback.listen)
    if loopback.public_url is not None:
        config["publicURL"] = loopback.public_url
    for world in config.get("worlds", ()):
        services = [world.pop("service")] if "service" in world else world.get("addresses", ())
        world["addresses"] = [address for service in services for address in loopback.addresses(service)]
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def _change(config: dict[str, Any], field: Sequence[str], change: Callable[[str], str]) -> None:
    for step in field[:-1]:
        inner = config.get(step)
        if not isinstance(inner, dict):
            return
        config = inner
    value = config.get(field[-1])
    if isinstance(value, str):
        config[field[-1]] = change(value)
    elif isinstance(value, list):
        config[field[-1]] = [change(item) for item in value]
