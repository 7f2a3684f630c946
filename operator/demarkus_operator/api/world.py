"""`World`: one versioned server of documents."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from demarkus_operator.api.access import Access
from demarkus_operator.api.common import ImageTag, Label, Model, name_rule
from demarkus_operator.api.expose import Expose
from demarkus_operator.api.limits import Limits
from demarkus_operator.api.network import NetworkPolicy
from demarkus_operator.api.pods import WorldTemplate
from demarkus_operator.api.policy import POLICY_DOCUMENT, Policy, Seed
from demarkus_operator.api.retention import Retention
from demarkus_operator.api.rules import Rule
from demarkus_operator.api.status import LIST_BY_NAME, LIST_BY_PATH, Status, Text
from demarkus_operator.api.store import Store, same
from demarkus_operator.api.tokens import Token, TokenFile

KIND = "World"
PLURAL = "worlds"


class UniverseRef(Model):
    """The Universe a World belongs to."""

    name: Label
    """The Universe's name."""
    namespace: Label | None = None
    """The Universe's namespace. Default: the World's own. Another one has to be admitted by the Universe."""


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
            expression=same("history", "protected"),
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
        Rule(
            name="token-files-once",
            field="tokenFiles",
            expression="!has(self.tokenFiles) || self.tokenFiles.all(a, "
            "self.tokenFiles.exists_one(b, b.secretRef.name == a.secretRef.name))",
            message="each Secret is named once in tokenFiles; put the hashes of one Secret into one file",
            holds=lambda self, _: (
                len({entry["secretRef"]["name"] for entry in self.get("tokenFiles", ())})
                == len(self.get("tokenFiles", ()))
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
    retention: Retention | None = None
    """What of the history may go, and what may not."""
    policy: Policy | None = None
    """What the World asks of its documents. Without it the document `/.well-known/demarkus/policy.md` counts, if there
    is one."""
    seed: Annotated[list[Seed], Field(max_length=50, json_schema_extra=LIST_BY_PATH)] | None = None
    """Documents that the World makes where there are none."""
    tokens: Annotated[list[Token], Field(max_length=50, json_schema_extra=LIST_BY_NAME)] | None = None
    """Capability tokens for native clients."""
    token_files: Annotated[list[TokenFile], Field(max_length=10)] | None = None
    """Files with hashes of further capability tokens."""
    limits: Limits | None = None
    """Bounds on what clients may ask, and on the World's size."""
    expose: Expose | None = None
    """How native clients reach the World. Default: in the cluster only."""
    network_policy: NetworkPolicy | None = None
    """What is added to the NetworkPolicy."""
    template: WorldTemplate | None = None
    """What is said of the pods."""
    suspend: bool | None = None
    """Whether no process runs; everything else stays. Default: false."""
    deletion_policy: Literal["Retain", "Delete"] | None = None
    """Whether the history, the identity and the tokens are deleted with the World. Default: `Retain`."""


class TokenStatus(Model):
    """A token that the World accepts."""

    name: Annotated[str, Field(max_length=63)]
    """The token's name."""
    secret: Annotated[str, Field(max_length=253)]
    """The Secret that holds its text, under the key `token`."""


class Loaded(Model):
    """What all processes that serve have loaded; by this, exchanges of keys go on."""

    key_set: Annotated[str, Field(max_length=64)] | None = None
    """The SHA-256 of the key set by which they take grants."""
    authority: Annotated[str, Field(max_length=64)] | None = None
    """The certificate authority that signed what they show: the identifier of its key."""


class WorldStatus(Status):
    """What a World is."""

    endpoint: Text | None = None
    """Where native clients reach it."""
    history: Annotated[str, Field(max_length=32)] | None = None
    """The identifier of its history; it never changes."""
    incarnation: Annotated[str, Field(max_length=32)] | None = None
    """The identifier of this life of the history."""
    loaded: Loaded | None = None
    """What all processes that serve have loaded."""
    store: Text | None = None
    """Where the history is: the size of the volume, or the bucket."""
    backup: Text | None = None
    """The newest backup; `-` without one."""
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
