"""The Worlds that a gateway leads to.

A World that can't be understood any more keeps the entry it had: one broken spec takes neither its own readers away nor
those of the others. Who may use it is then what was said last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan import gateway, record
from demarkus_operator.plan.children import broker_config
from demarkus_operator.plan.children.world_config import Identity
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.objects import Manifest
from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.site import Site
from demarkus_operator.plan.validity import spec_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A World that the Universe admits, and its spec if that can be understood."""

    world: Manifest
    spec: WorldSpec | None

    @classmethod
    def of(cls, world: Manifest) -> Member:
        """The World as a member."""
        try:
            return cls(world=world, spec=spec_of(world))
        except Refusal:
            return cls(world=world, spec=None)


def routes(
    members: Sequence[Member], bindings: Mapping[str, record.Binding], site: Site, config: Manifest | None
) -> list[dict[str, Any]]:
    """The entries of broker.yaml. `config` is the gateway's configuration as it is."""
    known = _known(config)
    return [route for member in members for route in _routes(member, bindings, site, known)]


def _routes(
    member: Member,
    bindings: Mapping[str, record.Binding],
    site: Site,
    known: Mapping[tuple[str, str, str], dict[str, Any]],
) -> Iterable[dict[str, Any]]:
    """The entry of a World that has its name and says who it is; else nothing."""
    metadata, status = member.world["metadata"], member.world.get("status") or {}
    name, namespace = metadata["name"], metadata["namespace"]
    history, incarnation = status.get("history"), status.get("incarnation")
    if not history or not incarnation or bindings.get(name) != record.Binding(namespace, history):
        return
    if member.spec is not None:
        identity = Identity(history=history, incarnation=incarnation)
        yield broker_config.route(WorldNames(namespace, name), identity, member.spec.access, site)
    elif (name, namespace, history) in known:
        yield {**known[name, namespace, history], "incarnation": incarnation}


def _known(config: Manifest | None) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The entries as they are, by name, namespace and history."""
    worlds = gateway.known_settings(config).get("worlds") or ()
    return {(one["name"], one["namespace"], one["history"]): one for one in worlds}
