"""What a document may not say: secrets never, personal data as the policy has it.

    content_secrets.py   shapes of keys and tokens, and random text beside a word such as `password`
    content_personal.py  e-mail addresses, phone numbers, and bank and card numbers whose checksums hold

A finding names kind and place and never the value, so that it can be told, logged and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    # The key is context too: `api-token: <random text>`. Values have no line breaks, so a line is a key.
    keys = sorted(metadata)
    lines = [f"{key}: {metadata[key]}" for key in keys]
    found = [Finding(kind, f"metadata {keys[line]}") for line, kind in _by_line(lines, secrets)]
    if personal:
        keys = [key for key in keys if key not in _STAMPED]
        values = [metadata[key] for key in keys]
        found += [Finding(kind, f"metadata {keys[line]}", True) for line, kind in _by_line(values, personal_data)]
    return tuple(dict.fromkeys(found))


def refusal_text(findings: Iterable[Finding]) -> str:
    """The message of a refusal, with the line feed at its end."""
    lines = [f"- {finding}\n" for finding in findings]
    rest = f"- and {len(lines) - TOLD} more\n" if len(lines) > TOLD else ""
    return "content check refused this write:\n" + "".join(lines[:TOLD]) + rest


def _by_line(lines: Sequence[str], search: Callable[[str], Iterable[tuple[int, str]]]) -> Iterator[tuple[int, str]]:
    """(number from 0, kind) of what is found in lines, all of them searched at once."""
    text = "\n".join(lines)
    for offset, kind in sorted(search(text)):
        yield text.count("\n", 0, offset), kind


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
