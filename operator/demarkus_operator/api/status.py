"""What every status has: conditions, and the generation they were made for."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from demarkus_operator.api.common import Model

Text = Annotated[str, Field(max_length=1024)]

LIST_BY_TYPE: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
LIST_BY_PATH: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["path"]}
LIST_BY_CLIENT: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["clientID"]}
LIST_BY_NAME: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


class ConditionStatus(Model):
    """A condition as Kubernetes writes them."""

    type: Annotated[str, Field(max_length=316)]
    """What it is about, such as `Ready`."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(min_length=1, max_length=316)]
    """Why, in one word; part of the API."""
    message: Annotated[str, Field(max_length=32768)]
    """Why, in a sentence that says what helps."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"}, max_length=64)]
    """When `status` last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The `metadata.generation` that this was found for."""


class Status(Model):
    """What all statuses have."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The `metadata.generation` that was last acted on."""
    conditions: Annotated[list[ConditionStatus], Field(max_length=16, json_schema_extra=LIST_BY_TYPE)] | None = None
    """How it is, in kinds and reasons that are part of the API."""
    version: Text | None = None
    """The version in force."""
