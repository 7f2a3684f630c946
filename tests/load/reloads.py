"""Token files and certificates that change while the load goes on, some of them broken; good ones come into force."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from mark_protocol.request import Request, Verb, encode_request
from mark_protocol.transport.certificates import self_signed
from tests.conftest import WorldProcess, a_token_file
from tests.load.account import Account
from tests.load.clients import DEADLINE, ask
from tests.load.operations import TOKEN
from tests.load.peer import connect

LOAD = (TOKEN, "/**", ("read", "publish"))
GUEST = "guest"


def tokens(*, guest: bool) -> str:
    """The load's own token is always there; a guest comes and goes."""
    return a_token_file(LOAD, *([(GUEST, "/**", ("read",))] if guest else []))


async def reload_tokens(world: WorldProcess, account: Account, number: int) -> None:
    """Let the guest in or out, every third time with a broken file in between."""
    path = world.folder / "tokens.toml"
    if number % 3 == 0:
        _replace(path, b"[tokens.load\nhash = ")
        await _is_refused(world, account)
        account.reloads["broken token files"] += 1
    guest = number % 2 == 0
    _replace(path, tokens(guest=guest).encode())
    request = encode_request(Request(Verb.LIST, "/notes/", {"auth": GUEST}))
    expected = "ok" if guest else "unauthorized"
    end = time.monotonic() + DEADLINE
    peer = await connect(world.port)
    try:
        while True:
            response = None if peer is None else await ask(peer, request)
            if response is not None and response.status == expected:
                account.reloads["token files"] += 1
                return
            if peer is None or response is None or time.monotonic() > end:
                account.wrong(f"a new token file is not in force: waited for {expected}, last {response}")
                return
            await asyncio.sleep(0.05)
    finally:
        if peer is not None:
            peer.leave()


async def reload_certificate(world: WorldProcess, account: Account, number: int) -> None:
    """A new certificate, every third time a broken one before it; a new handshake has to show it."""
    if number % 3 == 0:
        _replace(world.folder / "tls.crt", b"-----BEGIN CERTIFICATE-----\nbroken\n")
        await _is_refused(world, account)
        account.reloads["broken certificates"] += 1
    fresh = self_signed(now=datetime.now(UTC))
    _replace(world.folder / "tls.key", fresh.key_pem)
    _replace(world.folder / "tls.crt", fresh.chain_pem)
    wanted = x509.load_pem_x509_certificate(fresh.chain_pem)
    end = time.monotonic() + DEADLINE
    while True:
        peer = await connect(world.port)
        shown = None if peer is None else peer.certificate
        if peer is not None:
            peer.leave()
        if shown == wanted:
            account.reloads["certificates"] += 1
            return
        if peer is None or time.monotonic() > end:
            account.wrong("a new certificate is not in force")
            return
        await asyncio.sleep(0.1)


async def _is_refused(world: WorldProcess, account: Account) -> None:
    """Waits until the world tells of the broken file, so that it was read before a good one takes its place."""
    end = time.monotonic() + DEADLINE
    while not (await asyncio.to_thread(world.health))["reloadErrors"]:
        if time.monotonic() > end:
            account.wrong("a broken file was not told of")
            return
        await asyncio.sleep(0.05)


def _replace(path: Path, content: bytes) -> None:
    draft = path.with_name(path.name + ".draft")
    draft.write_bytes(content)
    draft.rename(path)
