"""What a World asks of its documents, and which documents it starts with."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from demarkus_operator.api.common import Model
from demarkus_operator.api.names import ConfigMapKey
from demarkus_operator.api.rules import Rule, whole

AGENT_MANIFEST = "/.well-known/agent-manifest.md"
POLICY_DOCUMENT = "/.well-known/demarkus/policy.md"

_AXIS = r"^[^\s,|=:]+$"
_is_axis = whole(_AXIS)
_PATH = r"^(/[^/]*[^/.][^/]*)+\.md$"
_is_path = whole(_PATH)

Axis = Annotated[str, Field(min_length=1, max_length=100, pattern=_AXIS)]
Key = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[a-z0-9-]+$")]
Value = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\s,|=]+$")]


class Policy(Model):
    """What a World asks of its documents. The document `/.well-known/demarkus/policy.md` follows it."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="policy-allowed-values",
            field="allowedValues",
            expression=f"!has(self.allowedValues) || self.allowedValues.all(k, k.matches(r'{_AXIS}'))",
            message="allowedValues names a metadata key or the axis of a tag, without blanks and without , | = or :",
            holds=lambda self, _: all(_is_axis(key) for key in self.get("allowedValues", ())),
        ),
    )

    strictness: Literal["warn", "block", "ask"] | None = None
    """What becomes of a write that does not keep to it: `warn` lets it pass, `block` refuses it, `ask` keeps it as a
    proposal until somebody with `review` decides. Default: `warn`."""
    require_tags: Annotated[list[Axis], Field(max_length=50)] | None = None
    """Axes: each document needs a tag `axis:value` for every one."""
    require_fields: Annotated[list[Key], Field(max_length=50)] | None = None
    """Metadata keys that every document needs."""
    allowed_values: (
        Annotated[
            dict[Annotated[str, Field(max_length=100)], Annotated[list[Value], Field(min_length=1, max_length=100)]],
            Field(min_length=1, max_length=50),
        ]
        | None
    ) = None
    """What a metadata key, and the tags of an axis of that name, may say."""
    personal_data: Literal["off", "warn", "block"] | None = None
    """What becomes of e-mail addresses, phone numbers, IBANs and card numbers in documents. Default: `off`; YAML wants
    that word in quotes."""


class Seed(Model):
    """A document that is made where there is none; afterwards it is like any other."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="seed-path",
            field="path",
            expression=f"self.path.matches(r'{_PATH}')",
            message="a seed's path begins with '/', has no empty or dot segments and ends in .md: '/index.md'",
            holds=lambda self, _: _is_path(self["path"]),
        ),
        Rule(
            name="seed-text",
            field="text",
            expression="has(self.text) != has(self.configMapKeyRef) || "
            f"(!has(self.text) && self.path == '{AGENT_MANIFEST}')",
            message=f"a seed has either text or configMapKeyRef; only {AGENT_MANIFEST} has a text of its own",
            holds=lambda self, _: (
                ("text" in self) != ("configMapKeyRef" in self)
                or ("text" not in self and self["path"] == AGENT_MANIFEST)
            ),
        ),
    )

    path: Annotated[str, Field(min_length=5, max_length=900)]
    """Where the document is."""
    text: Annotated[str, Field(min_length=1, max_length=65536)] | None = None
    """What it says. `/.well-known/agent-manifest.md` has a default."""
    config_map_key_ref: ConfigMapKey | None = None
    """Where its text is instead. A change of it is of no effect once the document is there."""
