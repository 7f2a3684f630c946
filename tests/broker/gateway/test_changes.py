"""A gateway in a changing universe: worlds come and go, rights and keys change, files are broken and mended."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from mark_protocol.client.client import MarkClient
from mark_protocol.client.pool import Pool
from mark_protocol.grants import Allow, Grant, key_id, sign_grant
from mark_protocol.transport.port import Trust

REACHED = ("ok", "not-found")


def word(result: Any) -> str:
    structured = result.structured_content
    return str(structured.get("error") or structured["status"])


def rfc3339(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_a_world_is_added_without_a_restart_and_taken_out_again(changing: Any, a_path: str) -> None:
    kitchen, garden = changing["kitchen"], changing["garden"]
    changing.configure(kitchen.route())
    pid = changing.broker.child.pid
    assert await changing.fetch("garden") == "no-such-world"
    changing.configure(kitchen.route(), garden.route())
    made = await changing.call("mark_publish", url=f"mark://garden{a_path}", body="red", expected_version=0)
    assert word(made) == "created"
    changing.configure(kitchen.route())
    assert await changing.fetch("garden", a_path) == "no-such-world"
    assert changing.broker.child.pid == pid


async def test_a_change_of_access_holds_at_the_next_request(changing: Any, a_path: str) -> None:
    kitchen = changing["kitchen"]
    changing.configure(kitchen.route())
    publish = {"url": f"mark://kitchen{a_path}", "body": "x", "expected_version": 0}
    assert word(await changing.call("mark_publish", "bob", **publish)) == "not-permitted"
    changing.configure(kitchen.route(access={"writers": [{"emails": ["bob@example.com"]}]}))
    assert word(await changing.call("mark_publish", "bob", **publish)) == "created"
    assert word(await changing.call("mark_archive", "ann", url=publish["url"])) == "not-permitted"
    changing.configure(kitchen.route(access={"readers": [{"emails": ["bob@example.com"]}]}))
    assert await changing.fetch(who="ann") == "no-such-world"
    assert await changing.fetch(path=a_path, who="bob") == "ok"


async def test_a_broken_file_keeps_the_last_good_one_and_says_so(changing: Any) -> None:
    changing.configure(changing["kitchen"].route())
    digest = changing.broker.facts()["loaded"]["config"]
    good = changing.broker.config.read_text()
    changing.broker.config.write_text(good.replace("worlds:", "wrolds:"))
    errors = changing.await_facts("the broken file to be noticed", lambda facts: facts["errors"])
    assert "wrolds: unknown field" in errors["config"]
    facts = changing.broker.facts()
    assert (facts["ready"], facts["loaded"]["config"]) == (True, digest)
    assert "wrolds: unknown field" in changing.broker.text()
    assert await changing.fetch() in REACHED
    changing.broker.config.write_text(good)
    changing.await_facts("the good file to be noticed", lambda facts: not facts["errors"])


async def test_a_world_that_moves_is_found_at_its_new_address(changing: Any) -> None:
    kitchen = changing["kitchen"]
    changing.configure(kitchen.route(addresses=["127.0.0.1:1"]))
    assert await changing.fetch() == "try-later"
    changing.configure(kitchen.route(addresses=[]))
    assert await changing.fetch() == "try-later"
    changing.configure(kitchen.route())
    assert await changing.fetch() in REACHED


async def test_a_world_behind_a_service_name_is_resolved(changing: Any) -> None:
    kitchen = changing["kitchen"]
    by_name = {key: value for key, value in kitchen.route().items() if key != "addresses"}
    changing.configure(
        by_name | {"service": f"localhost:{kitchen.port}"},
        by_name | {"name": "nowhere", "service": "no-such-name.invalid:6309"},
    )
    assert await changing.fetch() in REACHED
    assert await changing.fetch("nowhere") == "try-later"


async def test_a_certificate_for_another_name_gets_no_request(changing: Any) -> None:
    impostor = changing.world("impostor", names=("garden.team.svc", "127.0.0.1"))
    changing.configure(impostor.route())
    assert await changing.fetch("impostor") == "try-later"
    assert "certificate" in changing.broker.text()
    assert '"verb"' not in impostor.text()


async def test_a_certificate_of_another_ca_gets_no_request_until_the_bundle_has_it(
    changing: Any, eventually: Any
) -> None:
    other = type(changing.authority)("next CA")
    stranger = changing.world("stranger", authority=other)
    changing.configure(stranger.route())
    assert await changing.fetch("stranger") == "try-later"
    assert '"verb"' not in stranger.text()
    (changing.folder / "ca.crt").write_bytes(changing.authority.pem + other.pem)

    async def reached() -> bool:
        return await changing.fetch("stranger") in REACHED

    await eventually("the new CA to be trusted", reached)


async def test_keys_overlap_while_they_are_exchanged(
    changing: Any, key_files: Any, another_key: Any, eventually: Any
) -> None:
    old, new = changing.bearer(), key_files.bearer(public_url=changing.url, key=another_key)
    keys = changing.folder / "keys"
    kids = [key_id(key.public_key()) for key in (key_files.broker, another_key)]
    files = [keys / f"broker-{kid}.pem" for kid in kids]

    async def statuses() -> tuple[int, ...]:
        """405 behind the bearer, 401 before it."""
        answers = []
        for bearer in (old, new):
            async with changing.http_client(bearer=bearer) as http:
                answers.append((await http.get("/mcp")).status_code)
        return tuple(answers)

    async def settles(expected: tuple[int, ...]) -> None:
        async def there() -> bool:
            return await statuses() == expected

        await eventually(f"{expected} for the old and the new key", there)

    def signing(kid: str) -> None:
        (keys / "signing.json").write_text(json.dumps({"broker": kid}))

    assert await statuses() == (405, 401)
    signing(kids[0])
    files[1].write_bytes(another_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    await settles((405, 405))
    signing(kids[1])
    content = files[0].read_bytes()
    files[0].unlink()
    await settles((401, 405))
    files[0].write_bytes(content)
    await settles((405, 405))


async def test_grants_from_before_a_revocation_are_refused_and_new_ones_taken(
    changing: Any, key_files: Any, eventually: Any
) -> None:
    """The world is told first; the broker, which keeps a grant, signs another one by itself."""
    kitchen = changing["kitchen"]
    changing.configure(kitchen.route())
    assert await changing.fetch() in REACHED
    an_old_one = a_grant(kitchen, key_files, issued_at=int(time.time()) - 10)
    assert await ask_directly(changing, kitchen, an_old_one) in REACHED
    # Grants count whole seconds: the revocation has to be younger than the one that the broker holds.
    kitchen.write(grantsNotBefore=rfc3339(datetime.now(UTC) + timedelta(seconds=1)))
    assert await ask_directly(changing, kitchen, an_old_one) == "unauthorized"

    async def taken() -> bool:
        return await changing.fetch() in REACHED

    await eventually("a new grant to be taken", taken)


async def test_f12_with_every_grant_refused_the_caller_is_not_sent_to_sign_in(changing: Any) -> None:
    garden = changing["garden"]
    changing.configure(garden.route())
    garden.write(grantsNotBefore=rfc3339(datetime.now(UTC) + timedelta(hours=1)))
    refused = await changing.call("mark_fetch", url="mark://garden/a.md")
    assert word(refused) == "try-later"
    assert "sign-in is fine" in refused.structured_content["help"]


def a_grant(world: Any, key_files: Any, *, issued_at: int) -> str:
    identity = world.settings["identity"]
    return sign_grant(
        Grant(
            issuer="https://mark.example.com",
            audience=f"{identity['history']}/{identity['incarnation']}",
            subject="s-" + "0" * 32,
            user=None,
            allow=(Allow(frozenset({"read"}), ("/**",)),),
            issued_at=issued_at,
            expires_at=issued_at + 300,
            kid=key_id(key_files.grant.public_key()),
        ),
        key_files.grant,
    )


async def ask_directly(site: Any, world: Any, grant: str) -> str:
    """The status of a FETCH past the broker."""
    pool = Pool(
        [("127.0.0.1", world.port)], server_name=f"{world.name}.team.svc", trust=Trust(roots=site.authority.pem)
    )
    try:
        return (await MarkClient(pool, auth=grant).fetch("/a.md")).status
    finally:
        await pool.close()
