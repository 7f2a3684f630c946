"""Who a child belongs to: the metadata that every child of a World or Universe gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from demarkus_operator.api.common import API_VERSION
from demarkus_operator.api.conditions import Reason
from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Manifest, Observed, Ref
from demarkus_operator.plan.refusal import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A World or Universe as the owner of its children."""

    kind: str
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    takes_all_along: bool = False
    """Whether what would outlive it goes with it all the same (`deletionPolicy: Delete`)."""

    @classmethod
    def of_world(cls, world: Manifest, universe: str | None) -> Owner:
        """The World, with the name of its Universe if it names one."""
        metadata = world["metadata"]
        return cls(
            kind="World",
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            labels=labels.world_labels(metadata["name"], universe),
            takes_all_along=world["spec"].get("deletionPolicy") == "Delete",
        )

    @classmethod
    def of_universe(cls, universe: Manifest) -> Owner:
        """The Universe."""
        metadata = universe["metadata"]
        return cls(
            kind="Universe",
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            labels=labels.universe_labels(metadata["name"]),
            takes_all_along=universe["spec"].get("deletionPolicy") == "Delete",
        )

    @property
    def reference(self) -> dict[str, Any]:
        """What a child says that goes when its owner goes."""
        return {
            "apiVersion": API_VERSION,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
        }

    def owned(self, ref: Ref, content: Mapping[str, Any]) -> dict[str, Any]:
        """A child that goes when its owner goes."""
        return _manifest(ref, {"labels": dict(self.labels), "ownerReferences": [self.reference]}, content)

    def retained(
        self, ref: Ref, content: Mapping[str, Any], *, annotations: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """A child that always outlives its owner."""
        metadata: dict[str, Any] = {"labels": dict(self.labels)}
        if annotations:
            metadata["annotations"] = dict(annotations)
        return _manifest(ref, metadata, content)

    def kept(
        self, ref: Ref, content: Mapping[str, Any], *, annotations: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """A child that outlives its owner, unless that takes all along: what can't be made again.

        An owner of another namespace can't be named; such a child always stays.
        """
        manifest = self.retained(ref, content, annotations=annotations)
        if self.takes_all_along and ref.namespace == self.namespace:
            manifest["metadata"]["ownerReferences"] = [self.reference]
        return manifest

    def has(self, seen: Manifest) -> bool:
        """Whether an object that bears the name of a child is that child."""
        return labels.is_ours(seen, self.labels, self.uid)

    def claim_names(self, refs: Iterable[Ref], observed: Observed) -> None:
        """Refuses if an object that is not ours bears the name of a child: such an object is never touched."""
        for ref in refs:
            seen = observed.get(ref)
            if seen is not None and not self.has(seen):
                raise Refusal(
                    Reason.NAME_IN_USE,
                    f"{ref} is needed and exists, but does not belong to this {self.kind}; rename or remove it, or "
                    f"choose another name for the {self.kind}",
                )


def _manifest(ref: Ref, metadata: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "metadata": {"name": ref.name, "namespace": ref.namespace, **metadata},
        **content,
    }
