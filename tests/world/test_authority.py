"""Who may do what: tokens, grants, read modes, patterns."""

import json
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_world.authority import (
    AGENT_MANIFEST,
    AUTHENTICATION_REQUIRED,
    INSUFFICIENT_PERMISSIONS,
    Credential,
    Denial,
    Operation,
    Rules,
    opened_by,
)
from demarkus_world.settings import ReadMode
from mark_protocol.grants import Allow, Grant, KeySet, key_id, public_jwks, sign_grant
from mark_protocol.tokens import CapabilityToken, TokenSet, hash_token

NOW = 1_800_000_000
AUDIENCE = "0a" * 16 + "/" + "1b" * 16
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))


def a_token(
    raw: str, *paths: str, operations: tuple[str, ...] = ("read", "publish"), expires: int | None = None
) -> CapabilityToken:
    instant = None if expires is None else datetime.fromtimestamp(expires, UTC)
    return CapabilityToken(
        label=f"label-{raw}", hash=hash_token(raw), paths=paths, operations=frozenset(operations), expires=instant
    )


def a_grant(
    *allow: tuple[tuple[str, ...], tuple[str, ...]],
    key: Ed25519PrivateKey = KEY,
    audience: str = AUDIENCE,
    issued_at: int = NOW - 10,
    life: int = 300,
    user: str | None = "ada@example.com",
) -> str:
    grant = Grant(
        issuer="https://mark.example.com",
        audience=audience,
        subject="s-" + "ab" * 16,
        user=user,
        allow=tuple(Allow(operations=frozenset(words), paths=paths) for words, paths in allow),
        issued_at=issued_at,
        expires_at=issued_at + life,
        kid=key_id(key.public_key()),
    )
    return sign_grant(grant, key)


def a_key_set(*keys: Ed25519PrivateKey) -> KeySet:
    return KeySet.from_jwks(json.dumps(public_jwks([key.public_key() for key in keys])).encode())


def rules(
    *tokens: CapabilityToken, reads: ReadMode = ReadMode.PUBLIC, keys: KeySet | None = None, **more: int
) -> Rules:
    return Rules(reads=reads, audience=AUDIENCE, tokens=TokenSet(tokens) if tokens else None, keys=keys, **more)


def credential(the_rules: Rules, auth: str, *, now: int = NOW) -> Credential | None:
    return the_rules.identify(auth, now=now).credential


def may_read(the_rules: Rules, path: str, auth: str = "") -> Denial | None:
    return the_rules.read(credential(the_rules, auth), path)


class TestTokens:
    def test_without_any_file_there_is_nothing_to_check_against(self) -> None:
        assert not rules().configured
        assert may_read(rules(), "/a.md") is None

    def test_a_file_without_tokens_is_still_a_token_store(self) -> None:
        assert Rules(reads=ReadMode.PUBLIC, audience=AUDIENCE, tokens=TokenSet()).configured

    @pytest.mark.parametrize("auth", ["", "wrong", "old"])
    def test_no_unknown_and_expired_tokens_are_told_apart_only_in_the_log(self, auth: str) -> None:
        the_rules = rules(a_token("good", "/**"), a_token("old", "/**", expires=NOW - 1))
        writer = the_rules.writer(credential(the_rules, auth), Operation.WRITE, "/a.md")
        assert writer == AUTHENTICATION_REQUIRED

    def test_the_log_learns_why_a_credential_is_none(self) -> None:
        the_rules = rules(a_token("old", "/**", expires=NOW - 1))
        assert the_rules.identify("old", now=NOW).problem == "token label-old has expired"
        assert the_rules.identify("nothing-known", now=NOW).problem == "unknown token"
        assert the_rules.identify("", now=NOW).problem == ""

    def test_a_token_is_valid_up_to_its_last_instant(self) -> None:
        the_rules = rules(a_token("t", "/**", expires=NOW))
        assert credential(the_rules, "t", now=NOW) is not None
        assert credential(the_rules, "t", now=NOW + 1) is None

    @pytest.mark.parametrize(
        ("words", "permitted"),
        [
            (("publish",), {Operation.APPEND, Operation.WRITE, Operation.ARCHIVE}),
            (("write",), {Operation.APPEND, Operation.WRITE}),
            (("append",), {Operation.APPEND}),
            (("archive",), {Operation.ARCHIVE}),
            (("read",), {Operation.READ}),
            (("prune",), {Operation.PRUNE}),
            (("review",), {Operation.REVIEW}),
            (("admin",), set()),
        ],
    )
    def test_words_permit_operations(self, words: tuple[str, ...], permitted: set[Operation]) -> None:
        the_rules = rules(a_token("t", "/**", operations=words))
        holder = credential(the_rules, "t")
        assert holder is not None
        assert {operation for operation in Operation if holder.permits(operation, "/a.md")} == permitted

    def test_a_known_token_without_the_right_is_not_permitted(self) -> None:
        the_rules = rules(a_token("t", "/notes/**", operations=("read",)))
        assert the_rules.writer(credential(the_rules, "t"), Operation.WRITE, "/notes/a.md") == INSUFFICIENT_PERMISSIONS
        the_rules = rules(a_token("t", "/notes/**"))
        assert the_rules.writer(credential(the_rules, "t"), Operation.WRITE, "/other.md") == INSUFFICIENT_PERMISSIONS


class TestPublicReads:
    def test_what_no_read_token_covers_is_open(self) -> None:
        the_rules = rules(a_token("t", "/vault/**", operations=("read",)))
        assert may_read(the_rules, "/notes/a.md") is None
        assert may_read(the_rules, "/vault/a.md") == AUTHENTICATION_REQUIRED
        assert may_read(the_rules, "/vault/a.md", "t") is None

    def test_a_token_without_read_makes_nothing_private(self) -> None:
        assert may_read(rules(a_token("t", "/**", operations=("publish",))), "/a.md") is None

    def test_one_token_for_everything_makes_the_world_private(self) -> None:
        the_rules = rules(a_token("t", "/**"))
        assert may_read(the_rules, "/") == AUTHENTICATION_REQUIRED
        assert may_read(the_rules, "/a/b.md") == AUTHENTICATION_REQUIRED

    def test_a_15_an_expired_read_token_still_makes_its_paths_private(self) -> None:
        the_rules = rules(a_token("t", "/vault/**", expires=NOW - 1))
        assert may_read(the_rules, "/vault/a.md") == AUTHENTICATION_REQUIRED
        assert may_read(the_rules, "/vault/a.md", "t") == AUTHENTICATION_REQUIRED

    def test_another_token_is_not_permitted(self) -> None:
        the_rules = rules(a_token("t", "/vault/**"), a_token("u", "/other/**"))
        assert may_read(the_rules, "/vault/a.md", "u") == INSUFFICIENT_PERMISSIONS

    @pytest.mark.parametrize(
        ("pattern", "path", "private"),
        [
            ("/docs/**", "/docs", True),  # by its form with a slash
            ("/docs/**", "/docs/", True),
            ("/docs/**", "/docs/a/b.md", True),
            ("/docs/**", "/docsx", False),
            ("/docs/*", "/docs", True),  # pitfall A17: the listing of the directory
            ("/docs/*", "/docs/", True),
            ("/docs/*", "/docs/a.md", True),
            ("/docs/*", "/docs/a/b.md", False),
            ("/docs", "/docs", True),
            ("/docs", "/docs/", False),
            ("/docs", "/docs/a.md", False),  # pitfall A17: an exact path does not protect what is below
            ("/*", "/", True),
            ("/*", "/a.md", True),
            ("/*", "/a/b.md", False),
            ("/**", "/", True),
            ("/team-*/**", "/team-a/x.md", False),  # pitfall A16: a wildcard before ** is literal
            ("/team-*/**", "/team-*/x.md", True),
            ("/a/**/secret.md", "/a/secret.md", True),
            ("/a/**/secret.md", "/a/b/c/secret.md", True),
            ("/a/**/secret.md", "/a/b/secret.md.md", False),
        ],
    )
    def test_a_16_a_17_patterns_make_paths_private_as_upstream_does(
        self, pattern: str, path: str, private: bool
    ) -> None:
        the_rules = rules(a_token("t", pattern, operations=("read",)))
        assert may_read(the_rules, path) == (AUTHENTICATION_REQUIRED if private else None)
        assert may_read(the_rules, path, "t") is None

    def test_the_agent_manifest_is_always_open(self) -> None:
        for reads in ReadMode:
            assert may_read(rules(a_token("t", "/**"), reads=reads), AGENT_MANIFEST) is None

    def test_grants_do_not_make_paths_private(self) -> None:
        assert may_read(rules(keys=a_key_set(KEY)), "/a.md") is None

    def test_nothing_is_on_the_way(self) -> None:
        the_rules = rules(a_token("t", "/a/b/**"), a_token("u", "/**"))
        assert not the_rules.on_the_way(credential(the_rules, "t"), "/a")


@pytest.mark.parametrize("reads", [ReadMode.UNIVERSE, ReadMode.SCOPED])
class TestClosedReads:
    def test_every_read_needs_a_credential_even_without_a_token_store(self, reads: ReadMode) -> None:
        assert may_read(rules(reads=reads), "/a.md") == AUTHENTICATION_REQUIRED

    def test_the_path_decides(self, reads: ReadMode) -> None:
        the_rules = rules(a_token("t", "/notes/**"), reads=reads)
        assert may_read(the_rules, "/notes/a.md", "t") is None
        assert may_read(the_rules, "/notes", "t") is None
        assert may_read(the_rules, "/other.md", "t") == INSUFFICIENT_PERMISSIONS

    def test_a_token_that_may_only_write_may_not_read(self, reads: ReadMode) -> None:
        the_rules = rules(a_token("t", "/**", operations=("publish",)), reads=reads)
        assert may_read(the_rules, "/a.md", "t") == INSUFFICIENT_PERMISSIONS

    def test_directories_above_a_permitted_path_are_on_the_way(self, reads: ReadMode) -> None:
        the_rules = rules(a_token("t", "/a/b/**", "/x/*.md"), reads=reads)
        holder = credential(the_rules, "t")
        on_the_way = [path for path in ("/", "/a", "/a/b", "/x", "/x/y", "/c") if the_rules.on_the_way(holder, path)]
        assert on_the_way == ["/", "/a", "/a/b", "/x"]
        assert not the_rules.on_the_way(None, "/")


class TestGrants:
    def test_a_grant_permits_what_it_lists(self) -> None:
        the_rules = rules(keys=a_key_set(KEY), reads=ReadMode.UNIVERSE)
        auth = a_grant((("read",), ("/**",)), (("write",), ("/notes/**",)))
        assert may_read(the_rules, "/a.md", auth) is None
        writer = the_rules.writer(credential(the_rules, auth), Operation.WRITE, "/notes/a.md")
        assert isinstance(writer, Credential)
        assert (writer.kind, writer.label, writer.user) == ("grant", "s-" + "ab" * 16, "ada@example.com")
        assert the_rules.writer(writer, Operation.WRITE, "/a.md") == INSUFFICIENT_PERMISSIONS

    @pytest.mark.parametrize(
        ("auth", "problem"),
        [
            (a_grant((("read",), ("/**",)), key=OTHER_KEY), "key that is not in the key set"),
            (a_grant((("read",), ("/**",)), audience="0a" * 16 + "/" + "2c" * 16), "another incarnation"),
            (a_grant((("read",), ("/**",)), issued_at=NOW - 400), "expired"),
            (a_grant((("read",), ("/**",)), issued_at=NOW + 60), "from the future"),
            (a_grant((("read",), ("/**",)), issued_at=NOW - 200), "revoked"),
            (a_grant((("read",), ("/**",)))[:-4] + "AAAA", "signature"),
            ("eyJ.x.y", "not a compact JWS"),
        ],
    )
    def test_a_void_grant_is_no_credential(self, auth: str, problem: str) -> None:
        the_rules = rules(keys=a_key_set(KEY), reads=ReadMode.UNIVERSE, not_before=NOW - 100)
        presented = the_rules.identify(auth, now=NOW)
        assert presented.credential is None
        assert problem in presented.problem
        assert auth not in presented.problem

    def test_a_remembered_grant_expires_too(self) -> None:
        the_rules = rules(keys=a_key_set(KEY))
        auth = a_grant((("read",), ("/**",)), issued_at=NOW - 10, life=20)
        assert credential(the_rules, auth, now=NOW) is not None
        assert credential(the_rules, auth, now=NOW + 9) is not None
        assert credential(the_rules, auth, now=NOW + 10) is None

    def test_a_grant_is_nothing_without_a_key_set(self) -> None:
        the_rules = rules(a_token("t", "/**"))
        assert the_rules.identify(a_grant((("read",), ("/**",))), now=NOW).problem == (
            "a grant, but no key set is configured"
        )

    def test_what_only_begins_like_a_grant_is_a_token(self) -> None:
        the_rules = rules(a_token("eyJhbGciOi", "/**"), keys=a_key_set(KEY))
        holder = credential(the_rules, "eyJhbGciOi")
        assert holder is not None
        assert holder.kind == "token"


class TestReloadsThatOpen:
    def test_a_15_the_last_read_token_going_is_told(self) -> None:
        before, after = rules(a_token("t", "/vault/**")), rules(a_token("w", "/**", operations=("publish",)))
        told = opened_by(before, after)
        assert told is not None
        assert "no read token is left" in told
        assert "/vault/**" in told

    def test_a_lost_pattern_is_named(self) -> None:
        told = opened_by(rules(a_token("t", "/a/**", "/b/**")), rules(a_token("t", "/a/**")))
        assert told is not None
        assert told.endswith("no longer protect: /b/**")

    def test_the_mode_public_is_told(self) -> None:
        token = a_token("t", "/**")
        assert "from universe to public" in (opened_by(rules(token, reads=ReadMode.UNIVERSE), rules(token)) or "")

    def test_what_opens_nothing_is_not_told(self) -> None:
        token = a_token("t", "/a/**")
        assert opened_by(rules(token), rules(token, a_token("u", "/b/**"))) is None
        assert opened_by(rules(token), rules(a_token("other", "/a/**"))) is None
        closed = rules(reads=ReadMode.UNIVERSE)
        assert opened_by(rules(token, reads=ReadMode.UNIVERSE), closed) is None
        assert opened_by(rules(token), closed) is None


def test_no_credential_shows_in_representations() -> None:
    the_rules = rules(a_token("very-secret", "/**"), keys=a_key_set(KEY))
    auth = a_grant((("read",), ("/**",)))
    shown = repr((the_rules, the_rules.identify("very-secret", now=NOW), the_rules.identify(auth, now=NOW)))
    assert hash_token("very-secret") not in shown
    assert auth not in shown
