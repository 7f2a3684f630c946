"""ServiceAccount: a name for the pods and nothing else; no token is mounted."""

from __future__ import annotations

from typing import Any

from demarkus_operator.plan.objects import Ref
from demarkus_operator.plan.owner import Owner


def service_account(owner: Owner, ref: Ref) -> dict[str, Any]:
    """The ServiceAccount."""
    return owner.owned(ref, {"automountServiceAccountToken": False})
