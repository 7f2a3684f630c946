"""Capability tokens: the TOML files that hold their hashes, and finding the token a request carries.

A file never holds a token, only its SHA-256. The files are compatible with those of the Go server.

Source: Mark protocol, tokens; design, data path and authority.
"""

import hashlib
import hmac
import json
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from mark_protocol import patterns
from mark_protocol.times import parse_rfc3339

READ = "read"
APPEND = "append"
WRITE = "write"
ARCHIVE = "archive"
PUBLISH = "publish"  # write and archive
PRUNE = "prune"
REVIEW = "review"
# In the order they are written to files.
OPERATIONS = (READ, APPEND, WRITE, ARCHIVE, PUBLISH, PRUNE, REVIEW)

_HASH = re.compile(r"sha256-[0-9a-f]{64}")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class TokenFileError(Exception):
    """A token file that cannot be used; the message names file, label and field, never a hash."""


@dataclass(frozen=True, slots=True)
class CapabilityToken:
    """What one token allows. `hash` is `sha256-` and 64 hex digits; `expires` is the last instant it is valid."""

    label: str
    hash: str = field(repr=False)
    paths: tuple[str, ...] = ()
    operations: frozenset[str] = frozenset()
    expires: datetime | None = None

    def expired(self, now: datetime) -> bool:
        """Whether the token is no longer valid at an instant."""
        return self.expires is not None and now > self.expires


class TokenSet:
    """The tokens of one or more files, found by the token a request carries."""

    def __init__(self, tokens: Iterable[CapabilityToken] = ()) -> None:
        self.tokens = tuple(tokens)
        self._by_hash = {token.hash: token for token in self.tokens}

    def find(self, raw: str) -> CapabilityToken | None:
        """The token whose hash is that of `raw`, also where it has expired; None where there is none."""
        if not raw:
            return None
        hashed = hash_token(raw)
        token = self._by_hash.get(hashed)
        return token if token is not None and hmac.compare_digest(token.hash, hashed) else None

    @property
    def unknown_operations(self) -> tuple[str, ...]:
        """Words among the operations that mean nothing here, sorted; they are ignored, and worth a warning."""
        return tuple(sorted({word for token in self.tokens for word in token.operations} - set(OPERATIONS)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know about the set, one sentence each."""
        found = [f"the operation {word!r} is not known and is ignored" for word in self.unknown_operations]
        for token in self.tokens:
            for pattern in token.paths:
                warning = patterns.literal_prefix_warning(pattern)
                if warning is not None:
                    found.append(f"token {token.label!r}: {warning}")
        return tuple(found)


def parse_tokens(text: str, *, source: str) -> TokenSet:
    """The tokens of a file's text; `source` is the file's name for messages. Raises TokenFileError."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # Besides the library's own error: a number of thousands of digits, lists nested beyond its reach.
        raise TokenFileError(f"{source}: not valid TOML: {error}") from None
    tables = document.get("tokens", {})
    if not isinstance(tables, dict):
        raise TokenFileError(f"{source}: tokens must be a table with one table for each token")
    return merge([TokenSet([_parse_token(label, table, source)]) for label, table in tables.items()], source=source)


def _parse_token(label: str, table: object, source: str) -> CapabilityToken:
    if label.startswith("sha256-"):
        raise TokenFileError(f"{source}: a token's table is named by a label, and its hash is the field hash")
    where = f"{source}: token {label!r}"
    if not isinstance(table, dict):
        raise TokenFileError(f"{where}: must be a table with hash, paths and operations")
    hashed = table.get("hash", "")
    if not isinstance(hashed, str) or not _HASH.fullmatch(hashed):
        raise TokenFileError(f"{where}: hash must be sha256- and 64 lower-case hex digits of the token's SHA-256")
    paths = _words(table, "paths", where)
    for path in paths:
        try:
            patterns.check_pattern(path)
        except patterns.PatternError as error:
            raise TokenFileError(f"{where}: paths: {error}") from None
    expires = table.get("expires", "")
    instant = parse_rfc3339(expires) if isinstance(expires, str) and expires else None
    if expires != "" and instant is None:
        raise TokenFileError(f'{where}: expires must be an RFC 3339 time in quotes, as "2027-01-01T00:00:00Z"')
    return CapabilityToken(label, hashed, paths, frozenset(_words(table, "operations", where)), instant)


def _words(table: dict[str, object], name: str, where: str) -> tuple[str, ...]:
    value = table.get(name, [])
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise TokenFileError(f"{where}: {name} must be a list of strings")
    return tuple(value)


def merge(sets: Iterable[TokenSet], *, source: str = "token files") -> TokenSet:
    """One set of several; raises TokenFileError where a hash is there twice, since it could not be told whose it is."""
    labels: dict[str, str] = {}
    tokens: list[CapabilityToken] = []
    for token in (token for part in sets for token in part.tokens):
        if token.hash in labels:
            raise TokenFileError(f"{source}: tokens {labels[token.hash]!r} and {token.label!r} have the same hash")
        labels[token.hash] = token.label
        tokens.append(token)
    return TokenSet(tokens)


def hash_token(raw: str) -> str:
    """What a file keeps of a token: `sha256-` and the hex SHA-256 of its bytes."""
    return "sha256-" + hashlib.sha256(raw.encode(errors="surrogateescape")).hexdigest()


def new_token(random: Callable[[int], bytes]) -> str:
    """A fresh token: 32 random bytes as 64 hex digits."""
    return random(32).hex()


def render_entry(token: CapabilityToken) -> str:
    """A token's lines as they are appended to a file, with the empty line before them."""
    label = token.label if _BARE_KEY.fullmatch(token.label) else _toml_string(token.label)
    known = [word for word in OPERATIONS if word in token.operations]
    words = known + sorted(token.operations - set(known))
    lines = [
        f"[tokens.{label}]",
        f"hash = {_toml_string(token.hash)}",
        f"paths = [{', '.join(map(_toml_string, token.paths))}]",
        f"operations = [{', '.join(map(_toml_string, words))}]",
    ]
    if token.expires is not None:
        instant = token.expires.astimezone(UTC).replace(microsecond=0, tzinfo=None)
        lines.append(f'expires = "{instant.isoformat()}Z"')
    return "\n" + "\n".join(lines) + "\n"


def _toml_string(text: str) -> str:
    # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
