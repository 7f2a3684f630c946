"""What surrounds a World: who signs its certificate, whose grants it takes, and whether it may serve yet."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from demarkus_operator.api.check import problems
from demarkus_operator.api.conditions import Reason
from demarkus_operator.api.trust import IssuerRef
from demarkus_operator.api.universe import UniverseSpec, WorldDefaults
from demarkus_operator.plan import labels, membership, record, secret_data
from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Manifest, Observed, Ref
from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.site import Site
from demarkus_operator.plan.versions import version_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A World's surroundings.

    Attributes:
        authority: the Secret with the certificate authority, if it is there.
        grant_keys: the Secret with the keys that sign grants, if there is a Universe and it is there.
        version: the version that the Universe's record gives it.
        digests: the digests of the images of that version.
        defaults: what holds for a World that does not say otherwise.
        issuer: the issuer of cert-manager that the Universe names for the certificates of its Worlds.
        is_told: whether the Universe can say so: it is there, and valid.
        waiting_for: why the World can't serve yet, or None.
        universe_gone: what to say if the Universe was deleted, or None.
    """

    authority: Manifest | None
    grant_keys: Manifest | None = None
    version: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    defaults: WorldDefaults | None = None
    issuer: IssuerRef | None = None
    is_told: bool = False
    waiting_for: str | None = None
    universe_gone: str | None = None


def home_reads(world: Manifest, site: Site) -> tuple[Ref, ...]:
    """Everything that is looked at to know a World's surroundings."""
    names = _names(world)
    universe = membership.universe_of(world)
    if universe is None:
        return (names.authority(site.operator_namespace),)
    theirs = UniverseNames(*universe)
    reads = (theirs.universe, theirs.record, theirs.authority(site.operator_namespace), theirs.keys)
    return reads if theirs.namespace == names.namespace else (*reads, _namespace(names.namespace))


def home_of(world: Manifest, observed: Observed, site: Site) -> Home:
    """The surroundings of a World. Raises Refusal if its Universe does not admit it or its name is another's."""
    universe = membership.universe_of(world)
    if universe is None:
        return Home(authority=observed.get(_names(world).authority(site.operator_namespace)))
    theirs = UniverseNames(*universe)
    seen, kept = observed.get(theirs.universe), observed.get(theirs.record)
    if seen is not None:
        _check_admitted(world, theirs, seen, observed)
    binding = record.bindings_of(kept).get(world["metadata"]["name"])
    if binding is not None:
        _check_name(world, theirs, binding, observed)
    version, digests = version_in(kept, world["metadata"]["name"], site)
    home = Home(
        authority=observed.get(theirs.authority(site.operator_namespace)),
        grant_keys=observed.get(theirs.keys),
        version=version,
        digests=digests,
        defaults=_defaults(seen, kept),
        issuer=_issuer(seen),
        is_told=seen is not None and not problems(seen),
        universe_gone=f"{theirs.universe} was deleted; no gateway leads here" if seen is None else None,
    )
    if seen is None and binding is None:
        waiting_for = f"{theirs.universe} does not exist; create it, or correct spec.universeRef"
    elif binding is None or home.authority is None or (seen is not None and home.grant_keys is None):
        waiting_for = f"{theirs.universe} has not taken this World in yet"
    else:
        return home
    return dataclasses.replace(home, waiting_for=waiting_for)


def _defaults(seen: Manifest | None, kept: Manifest | None) -> WorldDefaults | None:
    """What the Universe says of its Worlds, or said last."""
    if seen is None or problems(seen):
        return record.defaults_of(kept)
    worlds = UniverseSpec.model_validate(seen["spec"]).worlds
    return None if worlds is None else worlds.defaults


def _issuer(seen: Manifest | None) -> IssuerRef | None:
    if seen is None or problems(seen):
        return None
    trust = UniverseSpec.model_validate(seen["spec"]).trust
    return None if trust is None else trust.issuer_ref


def _check_admitted(world: Manifest, theirs: UniverseNames, seen: Manifest, observed: Observed) -> None:
    if problems(seen):
        return  # its own condition says so; a World that runs is not stopped for it
    namespace = world["metadata"]["namespace"]
    spec = UniverseSpec.model_validate(seen["spec"])
    if not membership.admits(spec, theirs.namespace, namespace, observed.get(_namespace(namespace))):
        raise Refusal(
            Reason.NAMESPACE_NOT_ALLOWED,
            f"{theirs.universe} does not admit Worlds of namespace {namespace}; its owner can select the namespace in "
            "spec.worlds.allowedNamespaces",
        )


def _check_name(world: Manifest, theirs: UniverseNames, binding: record.Binding, observed: Observed) -> None:
    names = _names(world)
    secret = observed.get(names.identity)
    history = None if secret is None else secret_data.identifier(secret, "history")
    known = history is not None or not binding.history  # with a known history, no other one is drawn
    if binding.fits(names.namespace, history) and known:
        return
    place = f"in {theirs.universe} the name {names.name} belongs to"
    release = f"let the Universe's owner annotate it with {labels.RELEASE_NAME}={names.name}"
    if binding.namespace != names.namespace:
        raise Refusal(
            Reason.NAME_TAKEN,
            f"{place} World {binding.namespace}/{names.name}; choose another name, or once that World is gone "
            f"{release}",
        )
    says = f"says {history}" if history else "is gone"
    raise Refusal(
        Reason.NAME_TAKEN,
        f"{place} history {binding.history}, and {names.identity} {says}; restore that Secret, or {release}",
    )


def _names(world: Manifest) -> WorldNames:
    return WorldNames(world["metadata"]["namespace"], world["metadata"]["name"])


def _namespace(name: str) -> Ref:
    return Ref("v1", "Namespace", "", name)
