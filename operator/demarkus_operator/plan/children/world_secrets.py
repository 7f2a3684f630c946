"""The Secrets of a World: identity, certificate, tokens. They outlive the World, so that it can be made again."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from demarkus_operator.api.tokens import Token as TokenSpec
from demarkus_operator.api.world import WorldSpec
from demarkus_operator.plan import images, recipes, secret_data
from demarkus_operator.plan.names import WorldNames, world_server_name
from demarkus_operator.plan.objects import Generate
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.site import Site
from mark_protocol.tokens import CapabilityToken, render_entry

TOKENS_FILE = "tokens.toml"


def identity(owner: Owner, names: WorldNames, site: Site, *, history: str | None = None) -> Generate:
    """Who the World is, with the `history` that it takes over, if it does. Notes down the version in force, for a World
    without a Universe that names none.
    """
    version = images.note(site.version, site.images.digests)
    manifest = owner.kept(names.identity, {"type": "Opaque"}, annotations=version)
    return Generate(manifest=manifest, recipe=recipes.WorldIdentity(history=history))


def certificate(
    owner: Owner, names: WorldNames, spec: WorldSpec, site: Site, trusted: secret_data.Authorities
) -> Generate:
    """The World's server certificate, for the names by which it is reached."""
    return Generate(
        manifest=owner.kept(names.certificate, {"type": "kubernetes.io/tls"}),
        recipe=recipes.ServerCertificate(
            common_name=owner.name,
            names=certificate_names(owner, spec, site),
            ca_certificate=trusted.certificates[trusted.active],
            ca_key=trusted.key,
            bundle=trusted.bundle,
        ),
    )


def certificate_names(owner: Owner, spec: WorldSpec, site: Site) -> tuple[str, ...]:
    """The names and addresses by which a World is reached."""
    server_name = world_server_name(owner.namespace, owner.name)
    further = (spec.expose and spec.expose.hostnames) or ()
    names = (server_name, f"{server_name}.{site.cluster_domain}", *further, *site.extra_tls_names)
    return tuple(dict.fromkeys(names))


def authority(owner: Owner, names: WorldNames, site: Site) -> Generate:
    """The certificate authority of a World without a Universe."""
    return Generate(
        manifest=owner.kept(names.authority(site.operator_namespace), {"type": "Opaque"}),
        recipe=recipes.CertificateAuthority(common_name=f"world {owner.name}"),
    )


def token(owner: Owner, names: WorldNames, name: str) -> Generate:
    """The text of one token."""
    return Generate(manifest=owner.kept(names.token(name), {"type": "Opaque"}), recipe=recipes.Token())


def tokens(
    owner: Owner, names: WorldNames, specs: Sequence[TokenSpec], entries: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[str, Any]:
    """The token file that the World reads: what each token gives, and its hash.

    `entries` has the labels and hashes of each token: two while it is exchanged. The file is there also without any
    token, so that the first one needs no restart.
    """
    text = "".join(
        render_entry(
            CapabilityToken(
                label=label,
                hash=hashed,
                paths=tuple(spec.paths),
                operations=frozenset(spec.operations),
            )
        )
        for spec in sorted(specs, key=lambda spec: spec.name)
        for label, hashed in entries[spec.name]
    )
    data = {TOKENS_FILE: base64.b64encode(text.encode()).decode()}
    return owner.kept(names.tokens, {"type": "Opaque", "data": data})
