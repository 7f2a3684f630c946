"""Where a World keeps its history: a volume of the cluster, or a bucket."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from demarkus_operator.api import quantities
from demarkus_operator.api.common import Model
from demarkus_operator.api.names import ObjectName
from demarkus_operator.api.rules import Rule, whole

MIN_VOLUME = "64Mi"
MAX_WORLD_REPLICAS = 9

_BUCKET = r"^gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[-A-Za-z0-9._]+)*$"
_is_bucket = whole(_BUCKET)
_ACCOUNT = r"^[a-z][-a-z0-9]{4,28}[a-z0-9]@[a-z][-a-z0-9:.]{4,60}[.]iam[.]gserviceaccount[.]com$"
_is_account = whole(_ACCOUNT)


def same(field: str, default: str) -> str:
    """CEL: a field that is absent counts as its default; it must be what it was."""
    return f"(has(self.{field}) ? self.{field} : '{default}') == (has(oldSelf.{field}) ? oldSelf.{field} : '{default}')"


class Volume(Model):
    """A volume of the cluster. The claim outlives the World, unless it is to be deleted with it."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="volume-minimum",
            field="size",
            expression=f"quantity(self.size).compareTo(quantity('{MIN_VOLUME}')) >= 0",
            message=f"a volume has at least {MIN_VOLUME}: part of it is kept in reserve; ask for more",
            holds=lambda self, _: quantities.number_of_bytes(self["size"]) >= quantities.number_of_bytes(MIN_VOLUME),
        ),
        Rule(
            name="volume-never-shrinks",
            field="size",
            expression="quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0",
            message="a volume can't shrink; set size back to what it was or more",
            holds=lambda self, old: quantities.number_of_bytes(self["size"]) >= quantities.number_of_bytes(old["size"]),
        ),
        Rule(
            name="storage-class-fixed",
            field="storageClassName",
            expression=same("storageClassName", ""),
            message="the class of a volume can't change; set storageClassName back and make a new World for another "
            "class",
            holds=lambda self, old: self.get("storageClassName", "") == old.get("storageClassName", ""),
        ),
    )

    size: Annotated[str, Field(max_length=20, pattern=quantities.PATTERN)]
    """How large, as a whole number with a unit: `10Gi`. It can grow where the storage class allows it, never shrink."""
    storage_class_name: ObjectName | None = None
    """The StorageClass. Default: the cluster's default class. It can't change."""


class Bucket(Model):
    """A bucket of Google Cloud Storage. It outlives the World, unless it is ours and to be deleted with it."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="bucket-url",
            field="url",
            expression=f"self.url.matches(r'{_BUCKET}')",
            message="a bucket's url is gs:// and its name, and a prefix if several Worlds share it: "
            "gs://acme-worlds/handbook",
            holds=lambda self, _: _is_bucket(self["url"]),
        ),
        Rule(
            name="bucket-fixed",
            field="url",
            expression="self.url == oldSelf.url",
            message="the bucket of a World can't change; set url back and make a new World for another bucket",
            holds=lambda self, old: self["url"] == old["url"],
        ),
        Rule(
            name="bucket-history-fixed",
            field="historyID",
            expression=same("historyID", ""),
            message="which history a World takes over can't change; set historyID back and make a new World",
            holds=lambda self, old: self.get("historyID", "") == old.get("historyID", ""),
        ),
        Rule(
            name="bucket-service-account",
            field="serviceAccount",
            expression=f"!has(self.serviceAccount) || self.serviceAccount.matches(r'{_ACCOUNT}')",
            message="serviceAccount is the e-mail address of a Google service account: "
            "handbook@acme-project.iam.gserviceaccount.com",
            holds=lambda self, _: "serviceAccount" not in self or _is_account(self["serviceAccount"]),
        ),
        Rule(
            name="bucket-replicas",
            field="replicas",
            expression=f"!has(self.replicas) || (self.replicas >= 1 && self.replicas <= {MAX_WORLD_REPLICAS})",
            message=f"a World in a bucket has 1 to {MAX_WORLD_REPLICAS} replicas; 2 or more keep it reachable while a "
            "node is drained",
            holds=lambda self, _: 1 <= self.get("replicas", 1) <= MAX_WORLD_REPLICAS,
        ),
    )

    url: Annotated[str, Field(min_length=8, max_length=500)]
    """`gs://name` or `gs://name/prefix`. It can't change."""
    history_id: Annotated[str | None, Field(alias="historyID", max_length=32, pattern=r"^[0-9a-f]{32}$")] = None
    """The history that is there already and is taken over. Without it the bucket has to be empty, or this World's."""
    service_account: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The Google service account that the pods act as (workload identity). Default: the pods' own identity."""
    replicas: Annotated[int, Field(json_schema_extra={"format": "int32"})] | None = None
    """How many processes serve it. Default: 2."""


class Store(Model):
    """Where a World keeps its history."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="one-store",
            expression="has(self.volume) != has(self.bucket)",
            message="a store is given as one of: volume, bucket; write for example store: {volume: {size: 10Gi}}",
            holds=lambda self, _: ("volume" in self) != ("bucket" in self),
        ),
        Rule(
            name="store-fixed",
            expression="has(self.volume) == has(oldSelf.volume)",
            message="a World stays where its history is; set store back and make a new World for another store",
            holds=lambda self, old: ("volume" in self) == ("volume" in old),
        ),
    )

    volume: Volume | None = None
    """A volume of the cluster."""
    bucket: Bucket | None = None
    """A bucket."""
