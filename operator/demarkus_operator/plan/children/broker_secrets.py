"""The Secrets of a Universe. Both outlive it: its Worlds go on, and whoever makes it again finds them."""

from __future__ import annotations

from demarkus_operator.plan import recipes
from demarkus_operator.plan.names import UniverseNames
from demarkus_operator.plan.objects import Generate
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.site import Site


def authority(owner: Owner, names: UniverseNames, site: Site) -> Generate:
    """The certificate authority of the Universe's Worlds, in the operator's namespace: no gateway can read its key."""
    return Generate(
        manifest=owner.kept(names.authority(site.operator_namespace), {"type": "Opaque"}),
        recipe=recipes.CertificateAuthority(common_name=f"universe {owner.name}"),
    )


def keys(owner: Owner, names: UniverseNames) -> Generate:
    """The keys of the gateway."""
    return Generate(manifest=owner.kept(names.keys, {"type": "Opaque"}), recipe=recipes.BrokerKeys())
