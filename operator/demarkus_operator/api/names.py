"""Names of other objects, labels and hosts, bounded and in the form that the API server wants."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from demarkus_operator.api.common import Model
from demarkus_operator.api.rules import Rule, whole

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
SUBDOMAIN = rf"^{_LABEL}(\.{_LABEL})*$"
QUALIFIED = rf"^({_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"

ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=SUBDOMAIN)]
"""The name of an object: a DNS subdomain (RFC 1123)."""
HostName = Annotated[str, Field(min_length=1, max_length=253, pattern=SUBDOMAIN)]
"""A host's name, in lower case."""
DataKey = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9_-][-._A-Za-z0-9]*$")]
"""A key in the data of a Secret or ConfigMap."""
LabelKey = Annotated[str, Field(min_length=1, max_length=316, pattern=QUALIFIED)]
LabelValue = Annotated[str, Field(max_length=63, pattern=_VALUE)]

Labels = Annotated[dict[Annotated[str, Field(min_length=1, max_length=316)], LabelValue], Field(max_length=50)]
"""Labels; their keys are judged by `keys_rule`, because a schema can't."""
Annotations = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=316)], Annotated[str, Field(max_length=1024)]],
    Field(max_length=50),
]
"""Annotations; their keys are judged by `keys_rule`."""

_is_qualified = whole(QUALIFIED)


def keys_rule(name: str, field: str) -> Rule:
    """The rule on the keys of a map of labels or annotations."""
    return Rule(
        name=name,
        field=field,
        expression=f"!has(self.{field}) || self.{field}.all(k, k.matches(r'{QUALIFIED}'))",
        message=f"a key in {field} is a name of at most 63 letters, digits, '-', '_' and '.', with the domain of its "
        "owner and '/' before it if need be: example.com/team",
        holds=lambda self, _: all(_is_qualified(key) for key in self.get(field, ())),
    )


class SecretKey(Model):
    """A field of a Secret in the same namespace."""

    name: ObjectName
    """The Secret's name."""
    key: DataKey
    """The key in its data."""


class ConfigMapKey(Model):
    """A field of a ConfigMap in the same namespace."""

    name: ObjectName
    """The ConfigMap's name."""
    key: DataKey
    """The key in its data."""


class LocalName(Model):
    """An object in the same namespace."""

    name: ObjectName
    """Its name."""
