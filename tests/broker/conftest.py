"""Builders of the broker's suite: they default everything but what a test is about."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import ECKey

from demarkus_broker import keys
from demarkus_broker.identity import Person, person_of
from demarkus_broker.mcp.gate import admit
from demarkus_broker.mcp.tools.table import TOOLS
from demarkus_broker.mcp.tools.tool import Outcome, Refusal
from demarkus_broker.settings import WorldSettings
from demarkus_broker.worlds.directory import Directory, Entry
from mark_protocol.grants import key_id
from mark_protocol.request import Request
from mark_protocol.response import Response


def pem(private: Any) -> bytes:
    """A private key as PKCS #8 PEM."""
    return bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


@dataclass
class KeyFiles:
    """A keys directory with one key of each kind, and what tests do with the keys."""

    broker: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    grant: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    subject: bytes = bytes(range(32))
    public_url: str = "https://mark.example.com"

    @property
    def kid(self) -> str:
        return key_id(self.broker.public_key())

    def files(self) -> dict[str, bytes]:
        return {
            f"broker-{self.kid}.pem": pem(self.broker),
            f"grant-{key_id(self.grant.public_key())}.pem": pem(self.grant),
            "subject.key": self.subject.hex().encode() + b"\n",
            "cookie.key": b"ab" * 32,
        }

    def write(self, directory: Path) -> Path:
        directory.mkdir()
        for name, content in self.files().items():
            (directory / name).write_bytes(content)
        return directory

    def load(self) -> keys.Keys:
        return keys.load(self.files(), source="keys")

    def claims(self, *, public_url: str | None = None, **others: Any) -> dict[str, Any]:
        """The claims of a bearer that is good for ten minutes."""
        url, now = public_url or self.public_url, int(time.time())
        return {
            "iss": url,
            "aud": f"{url}/mcp",
            "sub": "ann",
            "email": "ann@example.com",
            "email_verified": True,
            "iat": now,
            "exp": now + 600,
        } | others

    def bearer(
        self,
        claims: Mapping[str, Any] | None = None,
        *,
        key: ec.EllipticCurvePrivateKey | None = None,
        header: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> str:
        """A bearer with these claims, or with good ones; signed with our key, or with another one."""
        signing = key or self.broker
        return jwt.encode(
            {"alg": "ES256", "kid": key_id(signing.public_key()), "typ": "JWT"} | dict(header or {}),
            dict(claims) if claims is not None else self.claims(**others),
            ECKey.import_key(pem(signing)),
            algorithms=["ES256"],
        )


@pytest.fixture(scope="session")
def key_files() -> KeyFiles:
    """Keys for a whole run."""
    return KeyFiles()


@pytest.fixture(scope="session")
def another_key() -> ec.EllipticCurvePrivateKey:
    """A P-256 key that is none of the broker's."""
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
def a_person() -> Callable[..., Person]:
    """Builds a person from claims."""

    def build(sub: str = "ann", **claims: Any) -> Person:
        defaults = {"email": f"{sub}@example.com", "email_verified": True}
        return person_of({"iss": "https://mark.example.com", "sub": sub} | defaults | claims)

    return build


@pytest.fixture
def a_world() -> Callable[..., WorldSettings]:
    """Builds the settings of a world."""

    def build(name: str = "kitchen", **fields: Any) -> WorldSettings:
        defaults = {
            "name": name,
            "namespace": "team",
            "addresses": ["127.0.0.1:6309"],
            "history": "0" * 31 + "1",
            "incarnation": "0" * 31 + "2",
        }
        return WorldSettings.model_validate(defaults | fields)

    return build


WRITES = ("PUBLISH", "APPEND", "ARCHIVE")


class ScriptedWorlds:
    """Worlds that answer writes with `write` and reads by path, or by world and path; everything asked is kept."""

    def __init__(self, worlds: list[WorldSettings], *, write: Any, reads: Mapping[str, Any]) -> None:
        self._directory = Directory(worlds, generation=0)
        self._write = write
        self._reads = reads
        self.asked: list[Request] = []

    def find(self, name: str, person: Person) -> Entry | None:
        return self._directory.find(name, person)

    def readable(self, person: Person) -> list[Entry]:
        return self._directory.readable(person)

    async def ask(self, person: Person, entry: Entry, request: Request) -> Response:
        self.asked.append(request)
        if request.verb in WRITES:
            answer = self._write
        else:
            missing = Response("not-found", {}, b"\n# Not found\n\nnothing is here\n")
            by_path = self._reads.get(request.path, missing)
            answer = self._reads.get(f"{entry.name}{request.path}", by_path)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = answer(request)
        return await answer if isinstance(answer, Awaitable) else answer

    @property
    def writes(self) -> list[Request]:
        return [request for request in self.asked if request.verb in WRITES]


@pytest.fixture
def run(a_world: Any, a_person: Any) -> Callable[..., Any]:
    """Calls a tool against scripted worlds; gives what it answers (an outcome or a refusal) and the worlds."""

    async def call(
        tool: str,
        *,
        write: Any = None,
        reads: Mapping[str, Any] | None = None,
        worlds: tuple[str, ...] = ("kitchen",),
        **arguments: Any,
    ) -> tuple[Outcome | Refusal, ScriptedWorlds]:
        access = {"writers": [{"emails": ["ann@example.com"]}]}
        scripted = ScriptedWorlds([a_world(name, access=access) for name in worlds], write=write, reads=reads or {})
        takes = TOOLS[tool].world_arguments
        given = dict.fromkeys(takes, "mark://kitchen/tea.md") | arguments
        try:
            admitted = admit(TOOLS[tool], given, person=a_person("ann"), agent="kettle", worlds=scripted)
            return await TOOLS[tool].handler(admitted), scripted
        except Refusal as refusal:
            return refusal, scripted

    return call
