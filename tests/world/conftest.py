"""Builders of the world tests: a world over a store in memory, asked through the table of verbs, without sockets."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.authority import Rules
from demarkus_world.engine.engine import Engine, Identity
from demarkus_world.engine.engine import Rules as EngineRules
from demarkus_world.policy import Policy
from demarkus_world.settings import ReadMode
from demarkus_world.verbs.answers import Answers
from demarkus_world.verbs.call import Call
from demarkus_world.verbs.table import answer, answer_at_once
from mark_protocol.grants import Allow, Grant, KeySet, key_id, public_jwks, sign_grant
from mark_protocol.paths import clean
from mark_protocol.request import Request, Verb
from mark_protocol.response import Response
from mark_protocol.tokens import CapabilityToken, TokenSet, hash_token

HISTORY, INCARNATION = "0a" * 16, "1b" * 16
AUDIENCE = f"{HISTORY}/{INCARNATION}"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
START = 1_800_000_000_000

ALL = (("admin", "/**", ("publish", "read", "prune")),)


class OwnBlobs(MemoryBlobs):
    """Blobs of one process alone, as on a volume: only such a world answers anything at once."""

    exclusive = True


@dataclass
class AskedWorld:
    """A world that can be asked. `now` is in milliseconds since 1970 and moves by a second with every request."""

    engine: Engine
    blobs: MemoryBlobs
    rules: Rules
    compatible: bool
    clock: list[int]
    fault: str = ""
    timeout: float = field(default=5.0)
    answers: Answers = field(default_factory=Answers)

    async def ask(self, verb: str, path: str, body: bytes = b"", *, auth: str = "admin", **metadata: str) -> Response:
        """One request; metadata keys may have underscores for hyphens."""
        self.clock[0] += 1000
        keys = {name.replace("_", "-"): value for name, value in metadata.items()}
        presented = self.rules.identify(auth, now=self.clock[0] / 1000)
        call = Call(
            request=Request(Verb(verb), path, keys, body),
            path=clean(path),
            rules=self.rules,
            credential=presented.credential,
            engine=self.engine,
            timeout=self.timeout,
            compatible=self.compatible,
        )
        at_once = [answer_at_once(call, self.answers) for _ in range(2)]
        answered = await answer(call)
        for early in at_once:
            assert early is None or early.response == answered.response, "what is answered at once is the same"
        self.fault = answered.fault
        return answered.response

    async def publish(self, path: str, body: bytes = b"# Tea\n", **metadata: str) -> Response:
        """A PUBLISH that has to succeed."""
        response = await self.ask("PUBLISH", path, body, **metadata)
        assert response.status in ("created", "ok"), response
        return response

    async def names(self, path: str, *, auth: str = "admin", **metadata: str) -> list[str]:
        """The entries of a LIST that has to succeed, as they are shown."""
        response = await self.ask("LIST", path, auth=auth, **metadata)
        assert response.status == "ok", response
        return [line[3:].partition("]")[0] for line in response.body.decode().splitlines() if line.startswith("- ")]

    async def reopened(self) -> AskedWorld:
        """The same store under an engine that has nothing in memory; the caller closes it."""
        engine = await Engine.open(
            self.blobs, self.engine.identity, now=lambda: self.clock[0], random=random.Random(8).randbytes
        )
        return replace(self, engine=engine)

    def with_rules(self, **changes: Any) -> AskedWorld:
        """The same world under other rules."""
        return replace(self, rules=rules(**changes))


def rules(
    *,
    tokens: tuple[tuple[str, str, tuple[str, ...]], ...] | None = ALL,
    reads: str = "public",
    grants: bool = False,
) -> Rules:
    """Rules with tokens of (raw token, path pattern, operations), labelled by the raw token."""
    token_set = None
    if tokens is not None:
        token_set = TokenSet(
            CapabilityToken(f"label-{raw}", hash_token(raw), (pattern,), frozenset(words))
            for raw, pattern, words in tokens
        )
    keys = KeySet.from_jwks(json.dumps(public_jwks([KEY.public_key()])).encode()) if grants else None
    return Rules(reads=ReadMode(reads), audience=AUDIENCE, tokens=token_set, keys=keys)


@pytest.fixture
async def a_world() -> AsyncIterator[Callable[..., Any]]:
    """Makes worlds: `await a_world(reads=..., tokens=..., grants=..., compatible=...)`."""
    async with AsyncExitStack() as stack:

        async def make(*, compatible: bool = False, policy: Policy | None = None, **changes: Any) -> AskedWorld:
            clock, blobs = [START], OwnBlobs()
            engine = await Engine.open(
                blobs,
                Identity(HISTORY, INCARNATION),
                now=lambda: clock[0],
                random=random.Random(7).randbytes,
                compatible=compatible,
                rules=lambda: EngineRules(policy=policy),
            )
            stack.push_async_callback(engine.close)
            return AskedWorld(engine, blobs, rules(**changes), compatible, clock)

        yield make


@pytest.fixture
def a_grant() -> Callable[..., str]:
    """Signs grants: `a_grant(("read", "/**"), ("write", "/notes/**"), user=...)`."""

    def make(*allow: tuple[str, str], user: str | None = "ada@example.com") -> str:
        grant = Grant(
            issuer="https://mark.example.com",
            audience=AUDIENCE,
            subject="s-" + "ab" * 16,
            user=user,
            allow=tuple(Allow(frozenset([word]), (pattern,)) for word, pattern in allow),
            issued_at=START // 1000,
            expires_at=START // 1000 + 300,
            kid=key_id(KEY.public_key()),
        )
        return sign_grant(grant, KEY)

    return make
