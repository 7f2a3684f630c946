"""A known history whose store is not there.

What was witnessed of a history is expected of its store. Until it is there nothing is served, no claim is made anew and
no history begun: the volume may only be late, and an empty one in its place would be in the way. The World's owner may
accept the loss; then the history begins a new life, with a new incarnation, so that nobody takes it for the old one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from demarkus_operator.api.conditions import Condition, ConditionType, Reason
from demarkus_operator.api.store import Store
from demarkus_operator.plan import labels, secret_data, witness
from demarkus_operator.plan.bucket import Bucket, bucket_of
from demarkus_operator.plan.bucket_facts import BucketFacts, Step
from demarkus_operator.plan.children import world_witness
from demarkus_operator.plan.names import WorldNames, witness_record
from demarkus_operator.plan.objects import Change, Manifest, Observed, Ref
from demarkus_operator.plan.owner import Owner
from demarkus_operator.plan.recipes import Incarnation
from demarkus_operator.plan.refusal import Refusal
from demarkus_operator.plan.reports import Report
from demarkus_operator.plan.site import Site
from demarkus_operator.plan.witness import Record, Testimony
from demarkus_operator.plan.workload import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a World's plan has to know of its history.

    Attributes:
        expect: what world.yaml expects of the store; None where a store may be made.
        change: what has to be changed before a loss counts as accepted; the rest is provisional then.
        outside: what is to be done to the bucket first; the rest is provisional then.
        record: the object with the record, if there is anything to record.
        lost: `Ready`, if the store is not the one that it should be; else None.
        verified: `HistoryVerified`; None to leave it as it is.
        findings: what there is to tell of the bucket.
    """

    expect: dict[str, Any] | None = None
    change: tuple[Change, ...] = ()
    outside: tuple[Step, ...] = ()
    record: tuple[Manifest, ...] = ()
    lost: Condition | None = None
    verified: Condition | None = None
    findings: tuple[Finding, ...] = ()

    def claim(self, claim: Manifest, seen: Manifest | None) -> tuple[Manifest, ...]:
        """The claim, unless it is gone with a known history on its volume."""
        return () if seen is None and self.lost is not None else (claim,)

    def told(self, conditions: Sequence[Condition]) -> tuple[Condition, ...]:
        """The conditions of a World, with what there is to say of its history."""
        told = [
            self.lost if self.lost is not None and condition.type is ConditionType.READY else condition
            for condition in conditions
        ]
        return (*told, *filter(None, (self.verified,)))


def check_identity(names: WorldNames, observed: Observed) -> None:
    """Refuses to draw an identity where a volume has the history of another: that one's Secret is only missing."""
    if observed.get(names.identity) is None and observed.get(names.claim) is not None:
        raise Refusal(
            Reason.MATERIAL_INVALID,
            f"{names.identity} is gone, and the history on {names.claim} needs it; restore the Secret, or "
            "remove the claim to begin another history",
        )


def history_of(
    world: Manifest,
    owner: Owner,
    names: WorldNames,
    store: Store,
    observed: Observed,
    site: Site,
    reports: Sequence[Report],
    testimony: Testimony | None,
    facts: BucketFacts | None,
) -> History:
    """What there is to know. `facts` are those of the bucket. Raises Refusal."""
    identity = observed[names.identity]
    assert identity is not None
    name = secret_data.identifier(identity, "history")
    ref = witness_record(site.operator_namespace, name)
    seen = observed.get(ref)
    owner.claim_names([ref], observed)
    before = witness.record_of(seen, history=name, key=secret_data.world_key(identity))
    bucket = Bucket() if store.bucket is None else bucket_of(store.bucket, facts, name, known=before.newest is not None)
    missing = bucket.missing
    if store.volume is not None and observed.get(names.claim) is None:
        missing = f"{names.claim} is gone"
    history, after = _judged(world, before, identity, [*_told(bucket, missing, before), *_reported(before, reports)])
    after, verified = witness.judged(after, testimony)
    record = () if seen is None and after == before else (world_witness.record(owner, ref, after, seen),)
    return dataclasses.replace(
        history,
        expect=_expected(after, store),
        outside=() if history.lost else bucket.steps,
        record=record,
        verified=verified,
        findings=bucket.findings,
    )


Problem = tuple[Reason, str]
"""What keeps a store from being served: the reason and what to say."""


def _judged(world: Manifest, record: Record, identity: Manifest, problems: Sequence[Problem]) -> tuple[History, Record]:
    """Whether the store is lost, and the record with a loss that was accepted."""
    accepts = (world["metadata"].get("annotations") or {}).get(labels.ACCEPT_EMPTY_STORE)
    if accepts is None and record.accepted:
        record = witness.taken_back(record)
    if not problems:
        return History(), record
    reason, words = problems[0]
    if reason is Reason.STORE_LOST:
        if accepts == record.history and not record.accepted:
            if secret_data.identifier(identity, "incarnation") not in record.incarnations:
                return History(), witness.given_up(record)
            return History(change=(_another_life(identity),)), record
        words = f"{words}; {_help(record, accepts)}"
    lost = Condition(type=ConditionType.READY, status=False, reason=reason, message=words)
    return History(lost=lost), record


def _told(bucket: Bucket, missing: str | None, record: Record) -> Iterator[Problem]:
    """What can be seen from here."""
    if bucket.foreign is not None:
        yield Reason.STORE_FOREIGN, bucket.foreign
    if missing is not None and (record.newest is not None or bucket.missing is not None):
        yield (
            Reason.STORE_LOST,
            f"{missing}, and at least {record.size} entries of history {record.history} were there",
        )


def _reported(record: Record, reports: Sequence[Report]) -> Iterator[Problem]:
    """What processes say, with the reason as the first word of a problem."""
    for report in filter(lambda report: report.reached, reports):
        for problem in report.problems:
            word, _, words = problem.partition(": ")
            if word == Reason.STORE_FOREIGN:
                yield Reason.STORE_FOREIGN, words
            elif word == Reason.STORE_LOST and record.newest is not None:
                yield Reason.STORE_LOST, words  # else it has not read yet that nothing is expected


def _another_life(identity: Manifest) -> Change:
    return Change(
        ref=Ref.of(identity),
        resource_version=identity["metadata"].get("resourceVersion", ""),
        recipe=Incarnation(),
        why="a new life of the history",
    )


def _expected(record: Record, store: Store) -> dict[str, Any] | None:
    taken_over = store.bucket is not None and store.bucket.history_id is not None and not record.given_up
    if record.newest is None and not taken_over:
        return None
    return {"history": record.history, "minSize": record.size}


def _help(record: Record, accepts: str | None) -> str:
    annotation = f"{labels.ACCEPT_EMPTY_STORE}={record.history}"
    if accepts == record.history:
        return f"the annotation {annotation} was acted on before; to accept this loss too, take it away and set it anew"
    return f"restore it, or accept the loss: annotate the World with {annotation}"
