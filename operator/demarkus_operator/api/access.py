"""Path patterns, operations and access entries: who may do what, as Worlds say it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from demarkus_operator.api.common import Model
from demarkus_operator.api.rules import Rule, whole

Operation = Literal["read", "append", "write", "archive", "publish", "prune", "review"]
WriterOperation = Literal["append", "write", "archive", "publish", "prune", "review"]

Words = Annotated[list[Annotated[str, Field(min_length=1, max_length=253)]], Field(min_length=1, max_length=100)]
Paths = Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], Field(min_length=1, max_length=16)]
Claims = Annotated[dict[Annotated[str, Field(max_length=253)], Words], Field(min_length=1, max_length=16)]

# Either no `**` at all, or literal text, one `**` that is a whole segment, and no further `**`.
_SINGLE = r"([^*]|\*[^*])*\*?"
PATTERN = rf"^(/{_SINGLE}|(/[^*?\[\\]*)?/\*\*(/{_SINGLE})?)$"
_is_pattern = whole(PATTERN)

_EMAIL = r"^[^@ ]+@[^@ ]+$"
_is_email = whole(_EMAIL)
_DOMAIN = r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$"
_is_domain = whole(_DOMAIN)


def paths_rule(name: str) -> Rule:
    """The rule on a field `paths`."""
    return Rule(
        name=name,
        field="paths",
        expression=f"!has(self.paths) || self.paths.all(p, p.matches(r'{PATTERN}'))",
        message="a path pattern begins with '/'; '**' stands at most once and for whole segments, with only literal "
        "text before it: '/**', '/docs/**', '/docs/**/*.md' or '/docs/*.md'",
        holds=lambda self, _: all(_is_pattern(path) for path in self.get("paths", ())),
    )


class Person(Model):
    """Whom an entry means. Every key that is given must match; one entry that matches is enough."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="entry-names-somebody",
            expression="has(self.emails) || has(self.domains) || has(self.groups) || has(self.claims)",
            message="an access entry names somebody: give at least one of emails, domains, groups, claims",
            holds=lambda self, _: any(key in self for key in ("emails", "domains", "groups", "claims")),
        ),
        Rule(
            name="entry-emails",
            field="emails",
            expression=f"!has(self.emails) || self.emails.all(e, e.matches(r'{_EMAIL}'))",
            message="an e-mail address has one '@' and no space; for everybody of a domain use domains",
            holds=lambda self, _: all(_is_email(email) for email in self.get("emails", ())),
        ),
        Rule(
            name="entry-domains",
            field="domains",
            expression=f"!has(self.domains) || self.domains.all(d, d.matches(r'{_DOMAIN}'))",
            message="a domain is the part behind the '@', such as example.com",
            holds=lambda self, _: all(_is_domain(domain) for domain in self.get("domains", ())),
        ),
    )

    emails: Words | None = None
    """E-mail addresses, compared without regard to case; only addresses that the issuer calls verified count."""
    domains: Words | None = None
    """Organisations: the issuer's `hd` claim, or the domain of the verified e-mail address where there is none."""
    groups: Words | None = None
    """Groups of the issuer, compared without regard to case; one of them is enough."""
    claims: Claims | None = None
    """Any other claims: name of the claim, and the values of which it must have one."""


class Reader(Person):
    """Whom an entry means, and where. Every key that is given must match; one entry that matches is enough."""

    RULES: ClassVar[tuple[Rule, ...]] = (*Person.RULES, paths_rule("entry-paths"))

    paths: Paths | None = None
    """Where the entry holds, as path patterns. Default: everywhere, `/**`."""


class Writer(Reader):
    """Whom an entry means, where, and what they may do there. Whoever may write may also read there."""

    operations: Annotated[list[WriterOperation], Field(min_length=1, max_length=6)] | None = None
    """What the entry gives: `append`, `write` (publish and append), `archive`, `publish` (write and archive), `prune`,
    or `review`, which with `write` decides proposals of others.

    Default: `publish`."""


class Access(Model):
    """Who may use a World through its Universe's gateway."""

    readers: Annotated[list[Reader], Field(max_length=50)] | None = None
    """Who may read. Absent or empty: everybody whom the Universe admits."""
    writers: Annotated[list[Writer], Field(max_length=50)] | None = None
    """Who may write. Absent or empty: nobody."""
