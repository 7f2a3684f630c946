"""A world as a process: it signs its history for the operator, reads what it stored again, is verified as it runs."""

import asyncio
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jws
from joserfc.jwk import OKPKey

from demarkus_world.commands.verify import command
from mark_protocol.grants import key_id, public_jwks

OPERATOR, KEY = (Ed25519PrivateKey.from_private_bytes(bytes(range(n, n + 32))) for n in (1, 2))
HISTORY = "0a" * 16


def ask(world: Any, target: str) -> Any:
    now = int(time.time())
    claims = {"iat": now, "exp": now + 30, "method": "GET", "path": target.partition("?")[0], "world": HISTORY}
    header = {"alg": "Ed25519", "kid": key_id(OPERATOR.public_key())}
    call = jws.serialize_compact(header, json.dumps(claims), OKPKey.import_key(OPERATOR), algorithms=["Ed25519"])
    port = world.serving["listen"]["management"].rpartition(":")[2]
    request = urllib.request.Request(f"https://localhost:{port}{target}", headers={"Authorization": f"Bearer {call}"})
    context = ssl.create_default_context(cadata=world.roots.decode())
    with urllib.request.urlopen(request, timeout=20, context=context) as answer:
        return json.load(answer)


@pytest.fixture
def managed(start_world: Callable[..., Any], tmp_path: Path) -> Any:
    """A world with a key and an operator."""
    (tmp_path / "world.key").write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "management.json").write_text(json.dumps(public_jwks([OPERATOR.public_key()])))
    world = start_world(begin=False, reads="public")
    world.write_config(
        identity={"history": HISTORY, "incarnation": "1b" * 16, "keyFile": str(tmp_path / "world.key")},
        managementKeys=str(tmp_path / "management.json"),
        listen={**world.config["listen"], "management": "127.0.0.1:0"},
        tokens=[str(tmp_path / "tokens.toml")],
    )
    return world


async def publish(world: Any, path: str, body: bytes) -> None:
    response = await world.request("PUBLISH", path, body, auth="admin")
    assert response.status in ("created", "ok"), response


async def test_a_history_is_signed_proven_scrubbed_and_verified(
    managed: Any, token_file: Callable[..., str], wait_until: Any, tmp_path: Path
) -> None:
    (tmp_path / "tokens.toml").write_text(token_file(("admin", "/**", ("publish", "read"))))
    world = managed
    world.start()
    await publish(world, "/a.md", b"one")
    first = ask(world, "/checkpoint")
    await publish(world, "/a.md", b"two")
    second = ask(world, "/checkpoint")
    assert (first["sequence"], second["sequence"]) == (1, 2)
    proof = ask(world, "/consistency?first=1&second=2")
    assert len(proof["proof"]) == 1
    with pytest.raises(urllib.error.HTTPError, match="404"):
        ask(world, "/hold")

    world.stop()
    world.start()
    await wait_until("the scrub's first pass", lambda: world.health()["scrub"]["verifiedThrough"] == 2)
    versions = await world.request("VERSIONS", "/a.md", auth="admin")
    assert versions.metadata["verified-through"] == "2"
    await wait_until("the gauge", lambda: "demarkus_world_verified_through 2.0" in world.health("/metrics"))
    assert "demarkus_world_damaged_versions 0.0" in world.health("/metrics")
    assert ask(world, "/consistency?first=1&second=2") == proof

    note = tmp_path / "note"
    note.write_text(second["note"])
    [newest] = (world.store / "docs/a.md").glob("v2-*.md")
    arguments = ["--config", str(world.folder / "world.yaml"), "--note", str(note)]
    for expected, ending in ((0, "intact"), (1, "NOT INTACT: 1 findings")):
        done = await asyncio.to_thread(CliRunner().invoke, command, arguments)
        assert (done.exit_code, done.stdout.splitlines()[-1]) == (expected, ending), done.output
        newest.write_bytes(newest.read_bytes().replace(b"two", b"TWO"))
    assert "the newest version of /a.md (version 2) was altered after it was written" in done.stdout

    world.stop()
    world.start()
    await wait_until("the scrub to find it", lambda: world.health()["scrub"]["damage"])
    told = world.health()
    assert told["ready"], "one damaged version is no reason to take a world out of service"
    assert newest.name in told["scrub"]["damage"][0]
    await wait_until("the gauge", lambda: "demarkus_world_damaged_versions 1.0" in world.health("/metrics"))
    assert [line["level"] for line in world.lines() if line["message"].startswith("scrub: ")] == ["error"]
    assert (await world.request("VERSIONS", "/a.md", auth="admin")).metadata["chain-valid"] == "false"


def test_management_needs_a_key_to_sign_with(managed: Any) -> None:
    managed.write_config(identity={"history": HISTORY, "incarnation": "1b" * 16})
    managed.start(wait=False)
    assert managed.process.wait(20) == 2
    assert "managementKeys needs identity.keyFile" in (managed.folder / "log").read_text()


def test_a_key_that_is_none_is_named(managed: Any, tmp_path: Path) -> None:
    (tmp_path / "tokens.toml").write_text("")
    (tmp_path / "world.key").write_text("no key")
    managed.start(wait=False)
    assert managed.process.wait(20) == 2
    told = (managed.folder / "log").read_text()
    assert "identity.keyFile: " in told
    assert "world.key: expected a PEM file with an unencrypted Ed25519 private key" in told
