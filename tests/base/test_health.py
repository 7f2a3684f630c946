"""The probe listener, over real sockets."""

import asyncio
import contextlib
import json

import pytest
from prometheus_client import Counter

from demarkus_base import httpd, metrics
from demarkus_base.health import HealthServer, Readiness


async def ask(server: HealthServer, request: str) -> tuple[int, dict[str, str], bytes]:
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(request.encode())
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), {name: value for name, _, value in (line.partition(": ") for line in lines)}, body


def get(target: str) -> str:
    return f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"


def ready() -> Readiness:
    return Readiness(True, details={"sequence": 7})


def waiting() -> Readiness:
    return Readiness(False, ("store is damaged", "no key set"), {"sequence": 0})


async def test_readiness_says_yes() -> None:
    async with HealthServer("127.0.0.1", 0, ready) as server:
        assert (await ask(server, get("/readyz")))[::2] == (200, b"ok\n")
        status, headers, body = await ask(server, get("/readyz?verbose"))
        assert (status, headers["Content-Type"]) == (200, "application/json")
        assert json.loads(body) == {"ready": True, "reasons": [], "sequence": 7}


async def test_readiness_says_no_and_why() -> None:
    async with HealthServer("127.0.0.1", 0, waiting) as server:
        assert (await ask(server, get("/readyz")))[::2] == (503, b"store is damaged\nno key set\n")
        status, _, body = await ask(server, get("/readyz?verbose"))
        assert status == 503
        assert json.loads(body)["reasons"] == ["store is damaged", "no key set"]
        assert (await ask(server, get("/livez")))[::2] == (200, b"ok\n")


async def test_metrics_are_exposed() -> None:
    registry = metrics.new_registry()
    Counter("demarkus_test_things", "Things.", registry=registry).inc()
    async with HealthServer("127.0.0.1", 0, ready, registry=registry) as server:
        status, headers, body = await ask(server, get("/metrics"))
    assert status == 200
    assert headers["Content-Type"] == metrics.CONTENT_TYPE
    assert b"demarkus_test_things_total 1.0" in body
    assert b"process_resident_memory_bytes" in body


async def test_a_bug_in_the_readiness_is_an_error_not_a_hang() -> None:
    def broken() -> Readiness:
        raise KeyError("x")

    async with HealthServer("127.0.0.1", 0, broken) as server:
        assert (await ask(server, get("/readyz")))[0] == 500
        assert (await ask(server, get("/livez")))[0] == 200


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (get("/nothing"), 404),
        (get("/metrics"), 404),
        ("POST /livez HTTP/1.1\r\n\r\n", 405),
        ("HEAD /livez HTTP/1.1\r\n\r\n", 200),
        ("\r\n\r\n", 405),
    ],
)
async def test_other_requests(request_text: str, status: int) -> None:
    async with HealthServer("127.0.0.1", 0, ready) as server:
        found, headers, body = await ask(server, request_text)
        assert found == status
        assert headers["Connection"] == "close"
        assert (body == b"") == request_text.startswith("HEAD")


async def test_an_endless_head_and_a_silent_peer_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpd, "TIMEOUT", 0.1)
    async with HealthServer("127.0.0.1", 0, ready) as server:
        for start in (b"", b"GET /livez HTTP/1.1\r\n" + b"x: y\r\n" * 4000):
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(start)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
        assert (await ask(server, get("/livez")))[0] == 200
