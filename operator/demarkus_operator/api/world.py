"""`World`: one versioned server of documents."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from demarkus_operator.api import quantities
from demarkus_operator.api.access import Access, Operation, Paths, paths_rule
from demarkus_operator.api.common import ImageTag, Label, Model, name_rule
from demarkus_operator.api.policy import POLICY_DOCUMENT, Policy, Seed
from demarkus_operator.api.rules import Rule, whole
from demarkus_operator.api.status import LIST_BY_NAME, LIST_BY_PATH, Status, Text

KIND = "World"
PLURAL = "worlds"

MIN_VOLUME = "64Mi"
_TOKEN_NAME = r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$"
_is_token_name = whole(_TOKEN_NAME)
_TIMEOUT = r"^([1-9][0-9]{0,4}ms|([1-9][0-9]?|[1-5][0-9][0-9]|600)s|([1-9]|10)m)$"
_is_timeout = whole(_TIMEOUT)


def _same(field: str, default: str) -> str:
    """CEL: a field that is absent counts as its default; it must be what it was."""
    return f"(has(self.{field}) ? self.{field} : '{default}') == (has(oldSelf.{field}) ? oldSelf.{field} : '{default}')"


class UniverseRef(Model):
    """The Universe a World belongs to."""

    name: Label
    """The Universe's name."""
    namespace: Label | None = None
    """The Universe's namespace. Default: the World's own. Another one has to be admitted by the Universe."""


class Volume(Model):
    """A volume of the cluster. The claim outlives the World."""

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
            expression=_same("storageClassName", ""),
            message="the class of a volume can't change; set storageClassName back and make a new World for another "
            "class",
            holds=lambda self, old: self.get("storageClassName", "") == old.get("storageClassName", ""),
        ),
    )

    size: Annotated[str, Field(max_length=20, pattern=quantities.PATTERN)]
    """How large, as a whole number with a unit: `10Gi`. It can grow where the storage class allows it, never shrink."""
    storage_class_name: (
        Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")] | None
    ) = None
    """The StorageClass. Default: the cluster's default class. It can't change."""


class Store(Model):
    """Where a World keeps its history."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="one-store",
            expression="has(self.volume)",
            message="a store is given as one of: volume; write for example store: {volume: {size: 10Gi}}",
            holds=lambda self, _: "volume" in self,
        ),
    )

    volume: Volume | None = None
    """A volume of the cluster."""


class Rate(Model):
    """How many requests one client may send."""

    per_second: Annotated[int, Field(ge=0, le=1000000)] | None = None
    """Requests in a second, on average; 0 lifts the bound. Default: 50."""
    burst: Annotated[int, Field(ge=1, le=1000000)] | None = None
    """Requests at once, before the average counts. Default: 100."""


class Limits(Model):
    """Bounds on what clients may ask of a World."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="request-timeout",
            field="requestTimeout",
            expression=f"!has(self.requestTimeout) || self.requestTimeout.matches(r'{_TIMEOUT}')",
            message="requestTimeout is a whole number of ms, s or m, at most ten minutes: '500ms', '10s' or '2m'",
            holds=lambda self, _: "requestTimeout" not in self or _is_timeout(self["requestTimeout"]),
        ),
    )

    rate: Rate | None = None
    """How many requests the holders of one credential may send; without a credential, one address."""
    max_streams: Annotated[int, Field(ge=1, le=10000)] | None = None
    """Requests that one connection may have open at once. Default: 10. A change restarts the server."""
    max_watches: Annotated[int, Field(ge=1, le=100000)] | None = None
    """Watches that the World has open at once; of a connection's requests, half may be watches. Default: 1024."""
    request_timeout: Annotated[str, Field(min_length=1, max_length=16)] | None = None
    """How long a request may take, such as `10s`. Default: 10 seconds."""


class Token(Model):
    """A capability token for native clients. Its text is in the Secret `<world>-token-<name>`."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="token-name",
            field="name",
            expression=f"self.name.matches(r'{_TOKEN_NAME}')",
            message="a token's name is part of a Secret's name: at most 40 lower-case letters, digits and '-', "
            "beginning and ending with a letter or digit",
            holds=lambda self, _: _is_token_name(self["name"]),
        ),
        paths_rule("token-paths"),
    )

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """The token's name, by which the World records who wrote. A name that is removed takes its Secret with it."""
    operations: Annotated[list[Operation], Field(min_length=1, max_length=7)]
    """What it gives: `read`, `append`, `write` (publish and append), `archive`, `publish` (write and archive),
    `prune`, which it takes to set `retention`, or `review`, which with `write` decides proposals of others."""
    paths: Paths
    """Where it holds, as path patterns such as `/**` or `/docs/**`."""


class WorldSpec(Model):
    """What a World should be."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="universe-fixed",
            field="universeRef",
            expression="has(self.universeRef) == has(oldSelf.universeRef)"
            " && (!has(self.universeRef) || self.universeRef == oldSelf.universeRef)",
            message="a World stays in its Universe: its certificate and name belong there; set universeRef back and "
            "make a new World in the other Universe",
            holds=lambda self, old: self.get("universeRef") == old.get("universeRef"),
        ),
        Rule(
            name="reads-need-universe",
            field="reads",
            expression="!has(self.reads) || self.reads != 'universe' || has(self.universeRef)",
            message="reads: universe is for Worlds with a universeRef; use scoped or public, or name a Universe",
            holds=lambda self, _: self.get("reads") != "universe" or "universeRef" in self,
        ),
        Rule(
            name="history-fixed",
            field="history",
            expression=_same("history", "protected"),
            message="how a World treats its history can't change; set history back (unset means protected) and make a "
            "new World for the other way",
            holds=lambda self, old: self.get("history", "protected") == old.get("history", "protected"),
        ),
        Rule(
            name="seed-policy",
            field="seed",
            expression=f"!has(self.policy) || !has(self.seed) || self.seed.all(s, s.path != '{POLICY_DOCUMENT}')",
            message=f"{POLICY_DOCUMENT} follows policy; remove the seed or the policy",
            holds=lambda self, _: (
                "policy" not in self or all(seed["path"] != POLICY_DOCUMENT for seed in self.get("seed", ()))
            ),
        ),
    )

    universe_ref: UniverseRef | None = None
    """The Universe that the World belongs to. Without one it has a certificate authority of its own and no gateway.

    It can't change."""
    version: ImageTag | None = None
    """The version of the server. Default: the Universe's, or else the operator's own at the time."""
    reads: Literal["public", "universe", "scoped"] | None = None
    """Who may read. `public`: everybody, but for what a token with `read` covers. `universe` and `scoped`: only holders
    of a credential with `read` on the path; with `universe` the gateway of the Universe gives such credentials.

    Default: `universe` with a universeRef, `scoped` without."""
    access: Access | None = None
    """Who may use the World through the Universe's gateway."""
    store: Store
    """Where the history is kept."""
    history: Literal["protected", "compatible"] | None = None
    """`protected` guards the history against loss and tells more about it; `compatible` is what upstream servers do.

    Default: `protected`. It can't change."""
    policy: Policy | None = None
    """What the World asks of its documents. Without it the document `/.well-known/demarkus/policy.md` counts, if there
    is one."""
    seed: Annotated[list[Seed], Field(max_length=50, json_schema_extra=LIST_BY_PATH)] | None = None
    """Documents that the World makes where there are none."""
    tokens: Annotated[list[Token], Field(max_length=50, json_schema_extra=LIST_BY_NAME)] | None = None
    """Capability tokens for native clients."""
    limits: Limits | None = None
    """Bounds on what clients may ask."""


class TokenStatus(Model):
    """A token that the World accepts."""

    name: Annotated[str, Field(max_length=63)]
    """The token's name."""
    secret: Annotated[str, Field(max_length=253)]
    """The Secret that holds its text, under the key `token`."""


class WorldStatus(Status):
    """What a World is."""

    endpoint: Text | None = None
    """Where native clients reach it."""
    history: Annotated[str, Field(max_length=32)] | None = None
    """The identifier of its history; it never changes."""
    incarnation: Annotated[str, Field(max_length=32)] | None = None
    """The identifier of this life of the history."""
    tokens: Annotated[list[TokenStatus], Field(max_length=50, json_schema_extra=LIST_BY_NAME)] | None = None
    """The tokens it accepts."""


class World(Model):
    """One versioned server of documents, with its store, its certificate and its credentials."""

    RULES: ClassVar[tuple[Rule, ...]] = (name_rule(KIND),)

    api_version: str
    kind: Literal["World"]
    metadata: dict[str, Any]
    spec: WorldSpec
    """What the World should be."""
    status: WorldStatus | None = None
    """What the World is; written by the operator."""
