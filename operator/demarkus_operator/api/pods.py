"""What a World or gateway may say of its pods: a part of a pod template, not the whole."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from demarkus_operator.api import quantities
from demarkus_operator.api.common import Model
from demarkus_operator.api.names import Annotations, LabelKey, Labels, LabelValue, LocalName, ObjectName, keys_rule
from demarkus_operator.api.rules import Rule, Value
from demarkus_operator.api.status import LIST_BY_NAME

_RESERVED = r"^([-a-z0-9.]*[.])?(demarkus[.]io|kubernetes[.]io|k8s[.]io)/"
_OURS = r"^([-a-z0-9.]*[.])?demarkus[.]io/"

Memory = Annotated[str, Field(min_length=1, max_length=20, pattern=quantities.PATTERN)]
CPU = Annotated[str, Field(min_length=1, max_length=10, pattern=quantities.CPU_PATTERN)]


class Amounts(Model):
    """Amounts of resources."""

    cpu: CPU | None = None
    """Cores: `2`, `500m`, `0.5`."""
    memory: Memory | None = None
    """Memory: `256Mi`, `1Gi`."""
    ephemeral_storage: Annotated[Memory | None, Field(alias="ephemeral-storage")] = None
    """Space on the node for logs and scratch files."""


def _within(self: Value) -> bool:
    requests, limits = self.get("requests", {}), self.get("limits", {})
    return all(_amount(requests[key]) <= _amount(limits[key]) for key in requests if key in limits)


def _amount(text: str) -> int:
    try:
        return quantities.number_of_bytes(text) * 1000
    except ValueError:
        return quantities.millicores(text)


def _no_more(key: str) -> str:
    return (
        f"!has(self.requests.{key}) || !has(self.limits.{key}) || "
        f"quantity(self.requests.{key}).compareTo(quantity(self.limits.{key})) <= 0"
    )


class Resources(Model):
    """What the container gets."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="requests-within-limits",
            field="requests",
            expression="!has(self.requests) || !has(self.limits) || ("
            + " && ".join(f"({_no_more(key)})" for key in ("cpu", "memory", "ephemeral__dash__storage"))
            + ")",
            message="a container can't request more than its limit; lower requests or raise limits",
            holds=lambda self, _: _within(self),
        ),
    )

    requests: Amounts | None = None
    """What is set aside for it."""
    limits: Amounts | None = None
    """What it can't exceed."""


class Toleration(Model):
    """A taint of nodes that the pods put up with."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="toleration-value",
            expression="self.operator == 'Exists' ? !has(self.value) : has(self.key)",
            message="operator Equal needs a key, and a value to compare with; Exists takes no value",
            holds=lambda self, _: "value" not in self if self["operator"] == "Exists" else "key" in self,
        ),
        Rule(
            name="toleration-seconds",
            field="tolerationSeconds",
            expression="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="tolerationSeconds goes with effect: NoExecute",
            holds=lambda self, _: "tolerationSeconds" not in self or self.get("effect") == "NoExecute",
        ),
    )

    key: LabelKey | None = None
    """The taint's key. Absent, with `Exists`: all taints."""
    operator: Literal["Exists", "Equal"]
    """How `value` is compared."""
    value: LabelValue | None = None
    """The taint's value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect. Absent: all effects."""
    toleration_seconds: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] | None = None
    """How long a pod stays on a node that got the taint."""


class Spread(Model):
    """How pods are spread over parts of the cluster. Which pods is known."""

    max_skew: Annotated[int, Field(ge=1, le=100, json_schema_extra={"format": "int32"})]
    """By how many pods two parts may differ."""
    topology_key: LabelKey
    """The label of nodes that names the part, such as `topology.kubernetes.io/zone`."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """What happens when it can't be."""


class PodTemplate(Model):
    """What is said of the pods."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        keys_rule("template-labels", "labels"),
        keys_rule("template-annotations", "annotations"),
        keys_rule("template-node-selector", "nodeSelector"),
        Rule(
            name="template-labels-ours",
            field="labels",
            expression=f"!has(self.labels) || self.labels.all(k, !k.matches(r'{_RESERVED}'))",
            message="labels of kubernetes.io and demarkus.io are the operator's; choose a key of your own domain",
            holds=lambda self, _: not any(re.match(_RESERVED, key) for key in self.get("labels", ())),
        ),
        Rule(
            name="template-annotations-ours",
            field="annotations",
            expression=f"!has(self.annotations) || self.annotations.all(k, !k.matches(r'{_OURS}'))",
            message="annotations of demarkus.io are the operator's; choose a key of another domain",
            holds=lambda self, _: not any(re.match(_OURS, key) for key in self.get("annotations", ())),
        ),
        Rule(
            name="spread-once",
            field="topologySpreadConstraints",
            expression="!has(self.topologySpreadConstraints) || self.topologySpreadConstraints.all(a, "
            "self.topologySpreadConstraints.exists_one(b, b.topologyKey == a.topologyKey))",
            message="one constraint for each topologyKey",
            holds=lambda self, _: (
                len({each["topologyKey"] for each in self.get("topologySpreadConstraints", ())})
                == len(self.get("topologySpreadConstraints", ()))
            ),
        ),
    )

    image: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[A-Za-z0-9][-A-Za-z0-9._:/@]*$")] | None = None
    """The whole image, instead of the one that belongs to the version; with a digest (`…@sha256:…`) it is pinned."""
    image_pull_secrets: Annotated[list[LocalName], Field(max_length=10, json_schema_extra=LIST_BY_NAME)] | None = None
    """Secrets with credentials for the image's registry."""
    labels: Labels | None = None
    """Further labels of the pods."""
    annotations: Annotations | None = None
    """Further annotations of the pods."""
    node_selector: Labels | None = None
    """Labels of the nodes that pods may run on."""
    tolerations: Annotated[list[Toleration], Field(max_length=20)] | None = None
    """Taints of nodes that the pods put up with."""
    topology_spread_constraints: Annotated[list[Spread], Field(max_length=5)] | None = None
    """How several pods are spread. Default: over nodes and zones, as far as that is possible."""
    priority_class_name: ObjectName | None = None
    """The PriorityClass."""
    runtime_class_name: ObjectName | None = None
    """The RuntimeClass."""


class WorldTemplate(PodTemplate):
    """What is said of a World's pods."""

    resources: Resources | None = None
    """What the container gets. Default: it requests 50m of CPU and 128Mi of memory, without limits."""
