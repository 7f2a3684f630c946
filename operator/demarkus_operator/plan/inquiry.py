"""What a World is asked, to witness its history: by whom it has to be answered, and from where on it has to prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from demarkus_operator.plan import names, secret_data, witness
from demarkus_operator.plan.names import WorldNames, witness_record
from demarkus_operator.plan.objects import Manifest, Observed, Ref
from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.reports import Report
from demarkus_operator.plan.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """A question to one World.

    Attributes:
        now: the time, in UTC.
        history: the history that has to answer.
        server_name: the name in its certificate.
        authority: the certificates, in PEM, that may have signed that.
        key: the operator's key, in PEM.
        size: how many entries are known, from which on it has to prove.
    """

    now: datetime
    history: str
    server_name: str
    authority: bytes
    key: bytes = field(repr=False)
    size: int


def record_reads(world: Manifest, observed: Observed, site: Site) -> tuple[Ref, ...]:
    """The record of a World's history: known by name only once its identity was read."""
    identity = observed.get(_names(world).identity)
    if identity is None:
        return ()  # nothing is known yet
    try:
        return (witness_record(site.operator_namespace, secret_data.identifier(identity, "history")),)
    except Refusal:
        return ()  # the plan says so


def inquiry_of(
    world: Manifest, observed: Observed, site: Site, now: datetime, reports: Sequence[Report]
) -> Inquiry | None:
    """The question to a World that serves; None while it can't be asked, or its answer not be judged."""
    if not any(report.reached and report.ready for report in reports):
        return None
    ours = _names(world)
    identity, certificate = observed.get(ours.identity), observed.get(ours.certificate)
    key = observed.get(names.operator_key(site.operator_namespace))
    if identity is None or certificate is None or key is None:
        return None
    try:
        history = secret_data.identifier(identity, "history")
        record = witness.record_of(
            observed.get(witness_record(site.operator_namespace, history)),
            history=history,
            key=secret_data.world_key(identity),
        )
        return Inquiry(
            now=now,
            history=history,
            server_name=names.world_server_name(ours.namespace, ours.name),
            authority=secret_data.field(certificate, "ca.crt"),
            key=secret_data.field(key, "operator.key"),
            size=record.size,
        )
    except Refusal:
        return None  # the plan says so


def _names(world: Manifest) -> WorldNames:
    return WorldNames(world["metadata"]["namespace"], world["metadata"]["name"])
