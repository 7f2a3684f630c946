"""Our finalizer: it keeps an object that is being deleted until what lies outside the cluster was let go of.

The list of finalizers belongs to everybody, so it is only ever changed as it was read (by resourceVersion).
"""

from __future__ import annotations

from demarkus_operator.cluster.port import Port
from demarkus_operator.plan.labels import FINALIZER
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.reconcile.children import Writes


def holds(subject: Manifest) -> bool:
    """Whether our finalizer is on the object."""
    return FINALIZER in (subject["metadata"].get("finalizers") or ())


async def hold(port: Port, subject: Manifest, wanted: bool, *, writes: Writes) -> Manifest:
    """Puts the finalizer on the object, or takes it off; the object as it is then. Raises `PortError`."""
    if holds(subject) == wanted:
        return subject
    others = [name for name in subject["metadata"].get("finalizers") or () if name != FINALIZER]
    patch = {"metadata": {"finalizers": [*others, FINALIZER] if wanted else others or None}}
    ref = Ref.of(subject)
    changed = await port.patch(ref, patch, subject["metadata"]["resourceVersion"])
    writes.note("patch", ref, "hold" if wanted else "release")
    return changed
