"""ServiceAccount: a name for the pods, and whom they act as at Google; no token is mounted."""

from __future__ import annotations

from typing import Any

from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Ref
from demarkus_operator.plan.owner import Owner


def service_account(owner: Owner, ref: Ref, *, acts_as: str | None = None) -> dict[str, Any]:
    """The ServiceAccount. `acts_as` is a Google service account (workload identity)."""
    manifest = owner.owned(ref, {"automountServiceAccountToken": False})
    if acts_as is not None:
        manifest["metadata"]["annotations"] = {labels.WORKLOAD_IDENTITY: acts_as}
    return manifest
