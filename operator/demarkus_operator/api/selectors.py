"""Label selectors, as Kubernetes has them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from demarkus_operator.api.common import Model
from demarkus_operator.api.names import LabelKey, Labels, LabelValue, keys_rule
from demarkus_operator.api.rules import Rule


class Requirement(Model):
    """One condition on labels."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="requirement-values",
            field="values",
            expression="self.operator in ['In', 'NotIn'] ? has(self.values) : !has(self.values)",
            message="In and NotIn need values; Exists and DoesNotExist take none",
            holds=lambda self, _: (self["operator"] in ("In", "NotIn")) == ("values" in self),
        ),
    )

    key: LabelKey
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How its value is compared with `values`."""
    values: Annotated[list[LabelValue], Field(min_length=1, max_length=50)] | None = None
    """The values for In and NotIn."""


class Selector(Model):
    """Labels that are wanted; all parts have to hold. Without any part it selects everything."""

    RULES: ClassVar[tuple[Rule, ...]] = (keys_rule("match-labels", "matchLabels"),)

    match_labels: Labels | None = None
    """Labels and the values they must have."""
    match_expressions: Annotated[list[Requirement], Field(max_length=20)] | None = None
    """Conditions on labels."""
