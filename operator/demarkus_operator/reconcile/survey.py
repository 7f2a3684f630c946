"""One look at the whole cluster: every World and Universe with its children, in a few large lists.

A look at everything would otherwise cost a dozen calls for each World. What is seen is kept packed, handed out once,
and forgotten as soon as something newer is heard of it; whoever finds something to do in it looks again at the cluster
itself before doing it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from demarkus_operator.cluster.apply import MANAGER as FIELD_MANAGER
from demarkus_operator.cluster.kinds import UNIVERSE, WATCHED_CHILDREN, WORLD, Kind
from demarkus_operator.cluster.port import NotFound, Port
from demarkus_operator.plan.labels import BROKER_APP, INSTANCE, MANAGED_BY, MANAGER, NAME, WORLD_APP
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.reconcile.loop import Seen
from demarkus_operator.reconcile.observe import Shared

_KIND_OF_APP = {WORLD_APP: WORLD, BROKER_APP: UNIVERSE}


@dataclass(slots=True)
class Survey:
    """What one look found.

    Attributes:
        subjects: all Worlds and Universes, without what others set.
        versions: the resourceVersion of every child.
        complete: whether the look has ended; before that nothing is handed out.
    """

    complete: bool = False
    subjects: list[Manifest] = field(default_factory=list)
    versions: dict[Ref, str] = field(default_factory=dict)
    _packed: dict[Ref, bytes] = field(default_factory=dict)
    _children: dict[Ref, list[bytes]] = field(default_factory=dict)
    _shared: Shared = field(default_factory=dict)
    _outdated: set[Ref] = field(default_factory=set)

    def take(self, ref: Ref) -> Seen | None:
        """What was found of a World or Universe, if nobody asked before and nothing newer was heard."""
        if not self.complete or ref in self._outdated:
            return None
        subject, children = self._packed.pop(ref, None), self._children.pop(ref, [])
        if not self._packed:
            self._shared.clear()
        if subject is None:
            return None
        found = [_unpacked(child) for child in children]
        return Seen(subject=_unpacked(subject), children={Ref.of(c): c for c in found}, shared=self._shared)

    def forget(self, ref: Ref) -> None:
        """Something newer was heard of a World or Universe, or of its children; also while the look goes on."""
        self._outdated.add(ref)
        self._packed.pop(ref, None)
        self._children.pop(ref, None)

    def add_subjects(self, page: Iterable[Manifest]) -> None:
        """Worlds or Universes."""
        for subject in page:
            slim = _slim(subject)
            self.subjects.append(slim)
            self._packed[Ref.of(subject)] = _packed(slim)

    def add_children(self, page: Iterable[Manifest]) -> None:
        """Children of any of them; of those that lost their owner only the version is kept."""
        for child in page:
            ref, labels = Ref.of(child), child["metadata"].get("labels") or {}
            self.versions[ref] = child["metadata"]["resourceVersion"]
            kind = _KIND_OF_APP.get(labels.get(NAME, ""))
            if kind is None:
                continue
            owner = Ref(kind.api_version, kind.kind, ref.namespace, labels.get(INSTANCE, ""))
            if owner in self._packed:
                self._children.setdefault(owner, []).append(_packed(_slim(child)))


async def survey(
    port: Port, namespaces: tuple[str, ...], *, into: Survey, kinds: Iterable[Kind] = WATCHED_CHILDREN
) -> None:
    """Looks at everything in these namespaces; in all, when none is named. Raises `PortError`."""
    for namespace in namespaces or (None,):
        for kind in (UNIVERSE, WORLD):
            async for page in port.pages(kind.api_version, kind.kind, namespace=namespace):
                into.add_subjects(page)
    for namespace in namespaces or (None,):
        for kind in kinds:
            try:
                async for page in port.pages(
                    kind.api_version, kind.kind, namespace=namespace, labels={MANAGED_BY: MANAGER}
                ):
                    into.add_children(page)
            except NotFound:
                if not kind.optional:
                    raise
    into.complete = True


def without_managers(manifest: Manifest) -> Manifest:
    """The object without the record of managed fields, which is often the larger part of it."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "managedFields"}
    return {**manifest, "metadata": metadata}


def _slim(manifest: Manifest) -> Manifest:
    """The object without other people's entries in the record of managed fields, of which nobody here asks."""
    metadata = manifest["metadata"]
    ours = [entry for entry in metadata.get("managedFields") or () if entry.get("manager") == FIELD_MANAGER]
    return {**manifest, "metadata": {**metadata, "managedFields": ours}}


def _packed(manifest: Manifest) -> bytes:
    return zlib.compress(json.dumps(manifest, separators=(",", ":")).encode(), 1)


def _unpacked(data: bytes) -> Manifest:
    found: Manifest = json.loads(zlib.decompress(data))
    return found
