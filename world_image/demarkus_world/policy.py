"""The write policy of a world (Mark protocol 6.6): what it asks of a document's metadata, and how strictly.

Either `policy` in world.yaml says it, and then owns the document at `POLICY_PATH`, or that document does, whoever
wrote it. The engine judges by it inside every commit. Values only; nothing here reads a file or a clock.

A policy document is any markdown text. The first line that begins (after blanks) with one of these words counts:

    strictness: warn | block | ask              what becomes of a write that violates it; default warn
    require_tags: area, team                    axes: each needs a tag `axis:value`
    require_fields: owner, title                metadata keys that may not be missing or blank
    allowed_values: status=draft|final          what a key, and the tags of an axis of that name, may say
    personal_data: off | warn | block           what becomes of e-mail addresses, phone, bank and card numbers
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from mark_protocol.metadata import TAGS, TYPE

POLICY_PATH = "/.well-known/demarkus/policy.md"
PROPOSALS = "/.well-known/demarkus/proposals"
"""The folder of the writes that wait for a decision."""

IMPORTANCE = "importance"
AXIS = r"[^\s,|=:]+"
KEY = r"[a-z0-9-]+"
VALUE = r"[^\s,|=]+"

_WITHOUT_TYPE = frozenset(["index.md", "log.md"])
_LINE = re.compile(r"\s*(strictness|require_tags|require_fields|allowed_values|personal_data):(.*)", re.ASCII)
_SEPARATOR = re.compile(r"[,\s]+")


class Strictness(StrEnum):
    """What becomes of a write that violates the policy: it passes, it is refused, or somebody else is asked."""

    WARN = "warn"
    BLOCK = "block"
    ASK = "ask"


class PersonalData(StrEnum):
    """What becomes of a write that holds personal data: nobody looks, it passes with a warning, or it is refused."""

    OFF = "off"
    WARN = "warn"
    BLOCK = "block"


class PolicyError(ValueError):
    """A document that is no policy; the text names the line's word and what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy. `allowed_values` maps a metadata key, or a tag axis, to what it may say."""

    strictness: Strictness = Strictness.WARN
    require_tags: tuple[str, ...] = ()
    require_fields: tuple[str, ...] = ()
    allowed_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    personal_data: PersonalData = PersonalData.OFF

    def violations(self, path: str, metadata: Mapping[str, str]) -> tuple[str, ...]:
        """The lines of the refusal, in the protocol's order; empty if a document may have this metadata.

        `metadata` is what the version would keep.
        """
        return tuple(self._violations(path, metadata))

    def _violations(self, path: str, metadata: Mapping[str, str]) -> Iterator[str]:
        tags = list(filter(None, (tag.strip() for tag in metadata.get(TAGS, "").split(","))))
        if not tags:
            yield "missing-tags"
        if not _is_importance(metadata.get(IMPORTANCE, "")):
            yield "invalid-importance"
        values = {
            axis: [tag.removeprefix(f"{axis}:") for tag in tags if tag.startswith(f"{axis}:")]
            for axis in (*self.require_tags, *self.allowed_values)
        }
        for axis in self.require_tags:
            if not any(values[axis]):
                yield f"missing-tag-axis: {axis}"
        waived = {TYPE} if path.rpartition("/")[2] in _WITHOUT_TYPE else frozenset()
        for name in self.require_fields:
            if not metadata.get(name, "").strip() and name not in waived:
                yield f"missing-field: {name}"
        for name, allowed in self.allowed_values.items():
            said = [metadata[name]] if metadata.get(name, "").strip() else []
            if any(value.strip() not in allowed for value in said + values[name]):
                yield f"value-not-allowed: {name}"


def _is_importance(text: str) -> bool:
    """Whether it is absent, blank, or a number from 0 to 1 (Mark protocol 6.3)."""
    text = text.strip()
    try:
        value = float.fromhex(text) if "0x" in text.lower() else float(text or 0)
    except (ValueError, OverflowError):
        return False
    return "_" not in text and math.isfinite(value) and 0 <= value <= 1


def refusal_text(strictness: Strictness, violations: tuple[str, ...]) -> str:
    """The message of the protocol, with the line feed at its end."""
    return f"publish policy ({strictness}) refused this write:\n" + "".join(f"- {line}\n" for line in violations)


def parse_policy(body: bytes) -> Policy:
    """The policy in a document's body. Raises PolicyError."""
    found: dict[str, str] = {}
    for line in body.decode(errors="replace").splitlines():
        match = _LINE.match(line)
        if match is not None:
            found.setdefault(match[1], match[2].strip())
    return Policy(
        strictness=_word(Strictness, "strictness", found.get("strictness") or Strictness.WARN),
        require_tags=_list("require_tags", found.get("require_tags", ""), AXIS),
        require_fields=_list("require_fields", found.get("require_fields", ""), KEY),
        allowed_values=dict(_allowed(item) for item in _items(found.get("allowed_values", ""))),
        personal_data=_word(PersonalData, "personal_data", found.get("personal_data") or PersonalData.OFF),
    )


W = TypeVar("W", bound=StrEnum)


def _word(words: type[W], name: str, text: str) -> W:
    try:
        return words(text)
    except ValueError:
        raise PolicyError(f"{name} is {text!r}; it is one of {', '.join(words)}") from None


def _items(text: str) -> list[str]:
    return list(filter(None, _SEPARATOR.split(text)))


def _list(name: str, text: str, pattern: str) -> tuple[str, ...]:
    items = _items(text)
    for item in items:
        if re.fullmatch(pattern, item) is None:
            raise PolicyError(f"{name} has {item!r}, which can't be there")
    return tuple(items)


def _allowed(item: str) -> tuple[str, tuple[str, ...]]:
    name, _, values = item.partition("=")
    allowed = tuple(values.split("|"))
    if re.fullmatch(AXIS, name) is None or not all(re.fullmatch(VALUE, value) for value in allowed):
        raise PolicyError(f"allowed_values has {item!r}; write it like status=draft|final")
    return name, allowed


POLICY_METADATA = {"type": "Policy", "title": "Write policy", TAGS: "policy"}


def render_policy(policy: Policy) -> bytes:
    """The document that says this policy."""
    lines = {
        "strictness": str(policy.strictness),
        "require_tags": ", ".join(policy.require_tags),
        "require_fields": ", ".join(policy.require_fields),
        "allowed_values": ", ".join(f"{name}={'|'.join(values)}" for name, values in policy.allowed_values.items()),
        "personal_data": str(policy.personal_data),
    }
    text = "# Write policy\n\nThis document follows the World's configuration; change it there.\n\n"
    return (text + "".join(f"{name}: {value}\n" for name, value in lines.items() if value)).encode()
