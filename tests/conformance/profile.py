"""What the suite is told of a server: where it is, the tokens it may use, and what was chosen in its configuration.

A profile is a TOML file (`docs/conformance.md` has the table of its keys); options of the command line come on top.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.wire import Endpoint

ROLES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "full": ("writes everywhere below the base, and prunes", ("publish", "prune"), ("{base}/**",)),
    "writer": ("writes, and may not prune where that is a right of its own", ("publish",), ("{base}/open/**",)),
    "reader": ("reads what is private", ("read",), ("{base}/vault/**",)),
    "vault": ("reads and writes what is private", ("read", "publish"), ("{base}/vault/**",)),
    "shelf": ("makes a directory private and the files in it, but nothing below", ("read",), ("{base}/shelf/*",)),
    "spots": ("makes single files of an open directory private", ("read",), ("{base}/mixed/secret-*",)),
    "expired": ("has expired; what it read stays private", ("read", "publish"), ("{base}/tomb/**",)),
    "dancer": ("has an operation that no server knows", ("dance",), ("{base}/open/**",)),
    "digits": ("looks like a number", ("publish",), ("{base}/open/**",)),
    "several": ("has two patterns", ("publish",), ("{base}/one/*", "{base}/two/**")),
    "star": ("writes one level of files", ("publish",), ("{base}/star/*",)),
    "signs": ("has classes, ? and \\ in its patterns", ("publish",), ("{base}/signs/[a-c]?.md", "{base}/signs/\\*.md")),
    "infix": ("has a ** inside", ("publish",), ("{base}/infix/**/notes/*.md",)),
    "literal": ("has a wildcard before **, where it means itself", ("publish",), ("{base}/lit-*/**",)),
    "keeper": ("makes the well-known documents private", ("read", "publish"), ("/.well-known/**",)),
}
"""Role: what its token is for, its operations, its path patterns."""

EXPIRED_SINCE = "2020-01-01T00:00:00Z"
ALONE = "keeper"
"""The role that only a server has which holds nothing but this suite's documents."""


class ProfileError(Exception):
    """A profile that cannot be used; the text says which key and what is expected."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One server.

    Attributes:
        endpoint: where it is.
        base: a path below which the suite makes its documents, no slash at its end.
        tokens: raw tokens by role.
        reads: `public` where everybody may read what no token protects, `private` where every read needs a token.
        history: `compatible` where a `retention` key prunes under the right to publish, `protected` where it takes one
            of its own.
        alone: the server holds nothing else, so well-known documents may be written and archived again.
        policy: it enforces the publish policy document.
        without_tokens: a second server of the same make that has no token store.
        read_only: a third one that is read-only, with the tokens of the first.
        stop: ends the server without tokens in an orderly way; a shell command in a file.
        ours: it is what this project makes, and has to show everything.
        name: for the reader of the summary.
    """

    endpoint: Endpoint
    base: str
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    reads: str = "public"
    history: str = "compatible"
    alone: bool = False
    policy: bool = False
    without_tokens: Endpoint | None = None
    read_only: Endpoint | None = None
    stop: str = ""
    ours: bool = False
    name: str = ""


def from_toml(text: str, *, source: str, folder: Path, host: str = "", port: int = 0) -> Profile:
    """The profile in a file; `host` and `port` win over those of the file. Raises ProfileError."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{source}: {error}") from None
    table |= ({"host": host} if host else {}) | ({"port": port} if port else {})
    tokens = _table(table, "tokens", source)
    for role in tokens:
        if role not in ROLES:
            raise ProfileError(f"{source}: tokens.{role}: no such role; roles are {', '.join(ROLES)}")
    ca = _ca(table, source, folder)
    base = str(table.pop("base", "")).rstrip("/")
    if not base.startswith("/"):
        raise ProfileError(f"{source}: base: expected a path such as /conformance-1f2e, it begins with /")
    profile = Profile(
        endpoint=_endpoint(table, ca, source, ""),
        base=base,
        tokens={role: str(raw) for role, raw in tokens.items()},
        reads=_choice(table, "reads", ("public", "private"), source),
        history=_choice(table, "history", ("compatible", "protected"), source),
        alone=bool(table.pop("alone", False)),
        policy=bool(table.pop("policy", False)),
        without_tokens=_second(table, "without-tokens", ca, source),
        read_only=_second(table, "read-only", ca, source),
        stop=str(table.pop("stop", "")),
        name=source,
    )
    if table:
        raise ProfileError(f"{source}: {', '.join(table)}: no such key")
    return profile


def _table(table: dict[str, Any], key: str, source: str) -> dict[str, Any]:
    found = table.pop(key, {})
    if not isinstance(found, dict):
        raise ProfileError(f"{source}: {key}: expected a table")
    return found


def _ca(table: dict[str, Any], source: str, folder: Path) -> bytes | None:
    named, insecure = table.pop("ca", None), table.pop("insecure", False)
    if bool(named) == bool(insecure):
        raise ProfileError(f"{source}: name the certificates to trust with ca, or say insecure = true")
    if insecure:
        return None
    try:
        return (folder / str(named)).read_bytes()
    except OSError as error:
        raise ProfileError(f"{source}: ca: {named}: {error.strerror}") from None


def _endpoint(table: dict[str, Any], ca: bytes | None, source: str, prefix: str) -> Endpoint:
    host, port, name = table.pop("host", None), table.pop("port", 6309), table.pop("server-name", "")
    if not isinstance(host, str) or not host:
        raise ProfileError(f"{source}: {prefix}host: expected a name or an address")
    if not isinstance(port, int) or not 0 < port < 65536:
        raise ProfileError(f"{source}: {prefix}port: expected a UDP port")
    return Endpoint(host=host, port=port, server_name=str(name), ca=ca)


def _second(table: dict[str, Any], key: str, ca: bytes | None, source: str) -> Endpoint | None:
    if key not in table:
        return None
    found = _table(table, key, source)
    endpoint = _endpoint(found, ca, source, f"{key}.")
    if found:
        raise ProfileError(f"{source}: {key}: {', '.join(found)}: no such key")
    return endpoint


def _choice(table: dict[str, Any], key: str, choices: tuple[str, ...], source: str) -> str:
    found = str(table.pop(key, choices[0]))
    if found not in choices:
        raise ProfileError(f"{source}: {key}: expected {' or '.join(choices)}")
    return found
