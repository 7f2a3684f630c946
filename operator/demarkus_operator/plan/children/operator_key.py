"""Secret, in the operator's namespace: the key by which Worlds know the operator. It belongs to no World."""

from __future__ import annotations

from demarkus_operator.plan import labels, recipes
from demarkus_operator.plan.names import operator_key
from demarkus_operator.plan.objects import Generate
from demarkus_operator.plan.site import Site


def key(site: Site) -> Generate:
    """The key. Whoever needs it first makes it."""
    ref = operator_key(site.operator_namespace)
    own = {labels.NAME: labels.OPERATOR_APP, labels.MANAGED_BY: labels.MANAGER}
    manifest = {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "metadata": {"name": ref.name, "namespace": ref.namespace, "labels": own},
        "type": "Opaque",
    }
    return Generate(manifest=manifest, recipe=recipes.OperatorKey())
