"""What a document may not say: secrets never, personal data as the policy has it.

    content_secrets.py   shapes of keys and tokens, and random text beside a word such as `password`
    content_personal.py  e-mail addresses, phone numbers, and bank and card numbers whose checksums hold

A finding names kind and place and never the value, so that it can be told, logged and kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from demarkus_world.content_personal import personal_data
from demarkus_world.content_secrets import secrets
from mark_protocol.metadata import AGENT, USER

TOLD = 20
"""How many findings a refusal lists."""

_STAMPED = frozenset({USER, AGENT})
"""Keys that name who wrote; personal by their nature."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind` is a word such as `private-key`, `where` is `line 3` or `metadata title`."""

    kind: str
    where: str
    personal: bool = False

    def __str__(self) -> str:
        return f"{'personal-data' if self.personal else 'secret'}: {self.kind} at {self.where}"


def inspect_body(body: bytes, *, personal: bool) -> tuple[Finding, ...]:
    """What stands in a body: secrets, and personal data if asked for."""
    text = body.decode(errors="replace")
    return tuple(_lines(text, secrets(text), False)) + (
        tuple(_lines(text, personal_data(text), True)) if personal else ()
    )


def inspect_metadata(metadata: Mapping[str, str], *, personal: bool) -> tuple[Finding, ...]:
    """What stands in metadata values; who wrote may be named there."""
    found: list[Finding] = []
    for key, value in sorted(metadata.items()):
        where = f"metadata {key}"
        # The key is context too: `api-token: <random text>`.
        found += (Finding(kind, where) for _, kind in secrets(f"{key}: {value}"))
        if personal and key not in _STAMPED:
            found += (Finding(kind, where, True) for _, kind in personal_data(value))
    return tuple(dict.fromkeys(found))


def refusal_text(findings: Iterable[Finding]) -> str:
    """The message of a refusal, with the line feed at its end."""
    lines = [f"- {finding}\n" for finding in findings]
    rest = f"- and {len(lines) - TOLD} more\n" if len(lines) > TOLD else ""
    return "content check refused this write:\n" + "".join(lines[:TOLD]) + rest


def _lines(text: str, found: Iterable[tuple[int, str]], personal: bool) -> Iterator[Finding]:
    """Findings by line, one of a kind for each; `found` is (offset, kind)."""
    line, at = 1, 0
    seen: set[tuple[int, str]] = set()
    for offset, kind in sorted(found):
        line += text.count("\n", at, offset)
        at = offset
        if (line, kind) not in seen:
            seen.add((line, kind))
            yield Finding(kind, f"line {line}", personal)
