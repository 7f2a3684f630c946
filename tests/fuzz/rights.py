"""Token files, path patterns, grants and key sets."""

from __future__ import annotations

import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mark_protocol import patterns
from mark_protocol.grants import (
    Allow,
    Grant,
    GrantError,
    KeySet,
    KeySetError,
    key_id,
    looks_like_grant,
    public_jwks,
    sign_grant,
    verify_grant,
)
from mark_protocol.patterns import PatternError
from mark_protocol.tokens import OPERATIONS, CapabilityToken, TokenFileError, hash_token, parse_tokens, render_entry
from tests.fuzz import matcher
from tests.fuzz.draw import Draw, must

PATTERN_PIECES = (
    "/",
    "/",
    "a",
    "b",
    "-",
    "*",
    "**",
    "/**",
    "/**/",
    "?",
    "[",
    "]",
    "[a-c]",
    "[^",
    "[^a]",
    "\\",
    "é",
    "^",
)
PATH_PIECES = ("/", "/", "a", "b", "c", "-", "ab", "[", "]", "*", "?", "^", "\\", "é", "\udcff")

_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_KEYS = KeySet.from_jwks(json.dumps(public_jwks([_KEY.public_key()])).encode())


def path_patterns(data: bytes) -> None:
    """The matcher decides as the plain one does, and a directory above a match is one that may contain it."""
    draw = Draw(data)
    pattern = draw.text(10, pieces=PATTERN_PIECES)
    path = "/" + draw.text(10, pieces=PATH_PIECES)
    try:
        expected = matcher.matches(pattern, path)
    except matcher.NoPattern:
        try:
            patterns.check_pattern(pattern)
        except PatternError:
            return
        raise AssertionError(f"{pattern!r} is taken for a pattern") from None
    assert patterns.matches(pattern, path) is expected, (pattern, path)
    patterns.literal_prefix_warning(pattern)
    if expected:
        for at, character in enumerate(path):
            if character == "/" and at < len(path) - 1:
                assert patterns.may_contain(pattern, path[:at] or "/"), (pattern, path, path[:at] or "/")


def token_files(data: bytes) -> None:
    """Any text is a token file or a TokenFileError."""
    text = data.decode(errors="replace")
    try:
        found = parse_tokens(text, source="tokens.toml")
    except TokenFileError:
        return
    again = parse_tokens("".join(map(render_entry, found.tokens)), source="tokens.toml")
    assert [_whole_seconds(token) for token in again.tokens] == [_whole_seconds(token) for token in found.tokens]
    assert isinstance(found.warnings, tuple)


def _whole_seconds(token: CapabilityToken) -> CapabilityToken:
    expires = token.expires.replace(microsecond=0) if token.expires else None
    return CapabilityToken(token.label, token.hash, token.paths, token.operations, expires)


def built_token_files(data: bytes) -> None:
    """A token of any label, patterns and words is read back as it was written, and found by what was hashed."""
    draw = Draw(data)
    label, raw = draw.unicode(), draw.text()
    paths = tuple(f"/{draw.unicode(pieces=PATH_PIECES)}".translate({ord(c): None for c in "[]\\*"}) for _ in "12")
    words = {draw.one_of(OPERATIONS), draw.unicode(2)}
    token = CapabilityToken(label, hash_token(raw), paths, frozenset(words))
    try:
        found = parse_tokens(render_entry(token), source="tokens.toml")
    except TokenFileError as error:
        must(label.startswith("sha256-"), error)
        return
    assert found.tokens == (token,)
    assert found.find(raw) == (token if raw else None)


def grants(data: bytes) -> None:
    """Any text is a GrantError, but for what was signed with the right key."""
    draw = Draw(data)
    signed = _signed(draw)
    text = sign_grant(signed, _KEY)
    assert looks_like_grant(text)
    assert verify_grant(text, _KEYS, audience="a/b", now=signed.issued_at) == signed
    at = draw.below(len(text))
    forged = text[:at] + draw.text(2) + text[at + draw.below(3) :]
    for other in (forged, draw.rest().decode(errors="surrogateescape")):
        try:
            found = verify_grant(other, _KEYS, audience="a/b", now=signed.issued_at)
        except GrantError as error:
            must(other not in str(error) or len(other) < 8, error)
        else:
            assert found == signed
            assert other.rpartition(".")[0] == text.rpartition(".")[0], "a forged grant was accepted"


def _signed(draw: Draw) -> Grant:
    allow = Allow(frozenset({draw.one_of(OPERATIONS)}), ("/" + draw.unicode(2, pieces=("a", "/", "b", "?", "*")),))
    try:
        patterns.check_pattern(allow.paths[0])
    except PatternError:
        allow = Allow(allow.operations, ("/**",))
    issued = 1_000_000 + draw.below(1000)
    return Grant(
        issuer=draw.unicode(2),
        audience="a/b",
        subject="s-" + f"{draw.below(65536):032x}",
        user=draw.unicode(2) if draw.flag() else None,
        allow=(allow,),
        issued_at=issued,
        expires_at=issued + 1 + draw.below(299),
        kid=key_id(_KEY.public_key()),
    )


def key_sets(data: bytes) -> None:
    """Any bytes are a key set or a KeySetError."""
    try:
        found = KeySet.from_jwks(data)
    except KeySetError:
        return
    assert all(found.get(kid) is not None for kid in found.key_ids)
