"""From claims to a person, and from a person to what they may do in a world.

Pure: functions of the claims of a verified bearer and of the access entries of broker.yaml. Every request is judged
anew by these; nothing about a person is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demarkus_broker.settings import Access, PersonEntry
from mark_protocol.grants import Allow
from mark_protocol.patterns import matches

READ = "read"

# What a word of an entry gives besides itself (operations of a grant).
_IMPLIED: Mapping[str, frozenset[str]] = {
    "write": frozenset({"append"}),
    "publish": frozenset({"write", "append", "archive"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who a request is from.

    Attributes:
        issuer, subject: together the identity (RFC 7519 `iss`, `sub`).
        email: in lower case, and only if the issuer says that it is verified.
        domain: the organisation: `hd` where the claims have that key, else the domain of the verified e-mail. An
            empty `hd` therefore means "belongs to no organisation", whatever the e-mail looks like.
        groups: in lower case.
        claims: all of them, for entries with `claims`.
    """

    issuer: str
    subject: str
    email: str | None
    domain: str | None
    groups: frozenset[str]
    claims: Mapping[str, Any]


def person_of(claims: Mapping[str, Any]) -> Person:
    """The person that verified claims describe. `iss` and `sub` have to be text; the rest may be missing or odd."""
    email = _email(claims)
    if "hd" in claims:
        domain = claims["hd"].strip().lower() if isinstance(claims["hd"], str) else ""
    else:
        domain = email.rpartition("@")[2] if email else ""
    return Person(
        issuer=claims["iss"],
        subject=claims["sub"],
        email=email,
        domain=domain or None,
        groups=frozenset(group.lower() for group in _texts(claims.get("groups"))),
        claims=claims,
    )


def admits(rules: Sequence[PersonEntry], person: Person) -> bool:
    """Whether the gateway lets a person in at all: no rules = everybody whom the provider signs in."""
    return not rules or any(_means(rule, person) for rule in rules)


def rights(person: Person, access: Access) -> tuple[Allow, ...]:
    """All that a person may do in a world with this access; empty = the world does not exist for them.

    No readers = every admitted identity reads everything; no writers = nobody writes; a writer also reads where they
    may write.
    """
    allowed: dict[tuple[str, ...], set[str]] = {}
    if not access.readers:
        allowed[("/**",)] = {READ}
    for reader in access.readers:
        if _means(reader, person):
            allowed.setdefault(reader.paths, set()).add(READ)
    for writer in access.writers:
        if _means(writer, person):
            allowed.setdefault(writer.paths, set()).update({READ, *writer.operations})
    return tuple(Allow(operations=frozenset(words), paths=paths) for paths, words in allowed.items())


def permits(allowed: Iterable[Allow], operation: str, path: str) -> bool:
    """Whether rights cover an operation on a canonical path. The world decides in the end; this only spares the way."""
    return any(_gives(allow, operation) and any(matches(pattern, path) for pattern in allow.paths) for allow in allowed)


def permits_anywhere(allowed: Iterable[Allow], operation: str) -> bool:
    """Whether rights give an operation on any path at all."""
    return bool(paths_for(allowed, operation))


def paths_for(allowed: Iterable[Allow], operation: str) -> tuple[str, ...]:
    """The path patterns on which rights give an operation, in the order of the access entries."""
    return tuple(dict.fromkeys(pattern for allow in allowed if _gives(allow, operation) for pattern in allow.paths))


def _gives(allow: Allow, operation: str) -> bool:
    return operation in allow.operations or any(
        operation in _IMPLIED.get(word, frozenset()) for word in allow.operations
    )


def _means(entry: PersonEntry, person: Person) -> bool:
    """Whether every key that an entry gives matches the person."""
    if entry.emails is not None and person.email not in {email.strip().lower() for email in entry.emails}:
        return False
    if entry.domains is not None and person.domain not in {domain.strip().lower() for domain in entry.domains}:
        return False
    if entry.groups is not None and not person.groups & {group.lower() for group in entry.groups}:
        return False
    return entry.claims is None or all(
        not set(values).isdisjoint(_texts(person.claims.get(name))) for name, values in entry.claims.items()
    )


def _email(claims: Mapping[str, Any]) -> str | None:
    email = claims.get("email")
    if not isinstance(email, str) or claims.get("email_verified") is not True:
        return None
    email = email.strip().lower()
    return email if email.count("@") == 1 and not email.startswith("@") and not email.endswith("@") else None


def _texts(value: object) -> list[str]:
    """A claim as texts: a list gives its members, anything else one; true and numbers as JSON writes them."""
    values = value if isinstance(value, list) else [value]
    texts = []
    for item in values:
        if isinstance(item, bool):
            texts.append("true" if item else "false")
        elif isinstance(item, str | int):
            texts.append(str(item))
    return texts
