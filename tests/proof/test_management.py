"""The operator's port over real sockets: notes and proofs for who signs each call, and nothing else."""

import base64
import json
import ssl
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jws
from joserfc.jwk import OKPKey

from demarkus_base.tlog.proofs import verify_consistency
from demarkus_world.engine import notes
from demarkus_world.management import ManagementServer
from demarkus_world.settings import TLS, HostPort
from mark_protocol.grants import KeySet, key_id, public_jwks
from mark_protocol.transport.certificates import self_signed

OPERATOR = Ed25519PrivateKey.from_private_bytes(bytes(range(5, 37)))
HISTORY = "a" * 32
NOW = int(time.time())


def signed(key: Ed25519PrivateKey = OPERATOR, *, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """The `Authorization` of GET /checkpoint, unless a test says otherwise; None leaves a claim out."""
    given = {"iat": NOW, "exp": NOW + 30, "method": "GET", "path": "/checkpoint", "world": HISTORY, **claims}
    given = {name: value for name, value in given.items() if value is not None}
    head = {"alg": "Ed25519", "kid": key_id(key.public_key()), **(header or {})}
    return "Bearer " + jws.serialize_compact(head, json.dumps(given), OKPKey.import_key(key), algorithms=["Ed25519"])


class Asked:
    """A management server over an engine with five entries, and who asks it."""

    def __init__(self, engine: Any, server: ManagementServer, trusted: bytes) -> None:
        self.engine = engine
        self.server = server
        self.trusted = trusted
        self.now = float(NOW)

    async def __call__(self, target: str, authorization: str | None = None, *, method: str = "GET") -> tuple[int, str]:
        context = ssl.create_default_context(cadata=self.trusted.decode())
        host, port = self.server.address
        headers = {"Authorization": authorization} if authorization else {}
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, f"https://localhost:{port}{target}", headers=headers, ssl=context, server_hostname="localhost"
            ) as response,
        ):
            assert host == "127.0.0.1"
            return response.status, await response.text()


@pytest.fixture
async def asked(start: Any, a_write: Any, wait_until: Any, tmp_path: Path) -> AsyncIterator[Asked]:
    engine = await start()
    for number in range(5):
        await engine.write(a_write(path=f"/{number}.md"))
    await wait_until("the nodes", lambda: engine._log.tree.known == 5)
    pair = self_signed(now=datetime.now(UTC))
    tls = TLS(certificate=tmp_path / "tls.crt", key=tmp_path / "tls.key")
    tls.certificate.write_bytes(pair.chain_pem)
    tls.key.write_bytes(pair.key_pem)
    keys = KeySet.from_jwks(json.dumps(public_jwks([OPERATOR.public_key()])).encode())
    server = ManagementServer(
        HostPort("127.0.0.1", 0), tls=tls, keys=lambda: keys, engine=engine, clock=lambda: asked.now
    )
    asked = Asked(engine, server, pair.chain_pem)
    async with server:
        yield asked


async def test_the_checkpoint_is_the_signed_note(asked: Asked) -> None:
    status, text = await asked("/checkpoint", signed())
    answer = json.loads(text)
    note = notes.opened(answer["note"], HISTORY, asked.engine._key.public)
    assert status == 200
    assert note.size == answer["sequence"] == 5
    assert (answer["history"], answer["incarnation"]) == (HISTORY, "b" * 32)


async def test_a_proof_ties_two_notes(asked: Asked, a_write: Any, wait_until: Any) -> None:
    async def note() -> notes.Note:
        _, text = await asked("/checkpoint", signed())
        return notes.opened(json.loads(text)["note"], HISTORY, asked.engine._key.public)

    before = await note()
    for number in range(4):
        await asked.engine.write(a_write(path=f"/more-{number}.md"))
    after = await note()
    await wait_until("the nodes", lambda: asked.engine._log.tree.known == after.size)
    status, text = await asked(f"/consistency?first={before.size}&second={after.size}", signed(path="/consistency"))
    assert status == 200
    proof = [base64.b64decode(part) for part in json.loads(text)["proof"]]
    verify_consistency(
        first=before.size, first_root=before.root, second=after.size, second_root=after.root, proof=proof
    )


async def test_a_proof_that_cant_be_made_yet_is_try_later(asked: Asked) -> None:
    asked.engine._log.tree._doubted = True
    assert await asked("/consistency?first=1&second=5", signed(path="/consistency")) == (503, "try later\n")


@pytest.mark.parametrize(
    "query",
    ["", "?first=1", "?first=2&second=1", "?first=1&second=6", "?first=-1&second=2", "?first=1&second=2&third=3",
     f"?first=1&second={'9' * 5000}", "?first=one&second=2"],
)  # fmt: skip
async def test_sizes_that_make_no_sense_are_refused(asked: Asked, query: str) -> None:
    status, _ = await asked(f"/consistency{query}", signed(path="/consistency"))
    assert status == 400


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/checkpoint"),
        ("DELETE", "/consistency"),
        ("GET", "/"),
        ("POST", "/hold"),
        ("GET", "/hold"),
        ("POST", "/archive"),
        ("GET", "/metrics"),
        ("GET", "/checkpoint/"),
        ("GET", "//checkpoint"),
    ],
)
async def test_everything_else_is_not_found(asked: Asked, method: str, target: str) -> None:
    assert await asked(target, signed(method=method, path=target), method=method) == (404, "not found\n")


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "Bearer",
        "Bearer x",
        "Bearer a.b.c",
        "Basic " + signed().partition(" ")[2],
        signed(Ed25519PrivateKey.from_private_bytes(bytes(32))),
        signed()[:-4] + "AAAA",
        signed(method="POST"),
        signed(path="/consistency"),
        signed(path="/checkpoint?x"),
        signed(world="c" * 32),
        signed(exp=NOW + 31),
        signed(exp=NOW),
        signed(iat=NOW - 60, exp=NOW - 30),
        signed(iat=NOW + 31, exp=NOW + 60),
        signed(iat=None),
        signed(world=None),
        signed(iat=True),
        signed(exp=float(NOW + 30)),
        signed(extra=1),
        signed(header={"kid": "another"}),
    ],
)
async def test_who_is_not_the_operator_is_refused(asked: Asked, authorization: str | None) -> None:
    assert await asked("/checkpoint", authorization) == (401, "unauthorized\n")


async def test_a_call_is_good_for_half_a_minute(asked: Asked) -> None:
    call = signed()
    asked.now = NOW + 29.9
    assert (await asked("/checkpoint", call))[0] == 200
    asked.now = NOW + 30.0
    assert (await asked("/checkpoint", call))[0] == 401


async def test_nothing_of_a_call_is_logged(asked: Asked, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for call in (signed(), signed(world="c" * 32)):
        await asked("/checkpoint", call)
        assert call.partition(" ")[2] not in caplog.text
        assert call.rpartition(".")[2] not in str([record.__dict__ for record in caplog.records])
    problems = [record.fields.get("problem") for record in caplog.records if record.message == "management call"]  # type: ignore[attr-defined]
    assert problems == [None, "it is for another world"]


async def test_a_new_certificate_is_for_new_connections(asked: Asked, tmp_path: Path) -> None:
    pair = self_signed(now=datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(pair.chain_pem)
    (tmp_path / "tls.key").write_bytes(pair.key_pem)
    asked.server.reload()
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await asked("/checkpoint", signed())
    asked.trusted = pair.chain_pem
    assert (await asked("/checkpoint", signed()))[0] == 200
