"""Strangers sign in: the official client with nothing but a URL, a provider on a socket, the broker as a process."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
import socket
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
import yaml
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwt
from joserfc.jwk import RSAKey
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from demarkus_base.blobs.gcs import Anonymous, GcsBlobs
from demarkus_broker.state.facts import Facts
from demarkus_broker.state.logins import Logins
from dev.gcs.process import started

REDIRECT = "http://127.0.0.1:51234/callback"
EACH_ON_ITS_OWN = httpx2.Limits(max_keepalive_connections=0)
"""Every request on a connection of its own, so that a balancer sends each to another replica."""
CLIENTS = 500
PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HEADERS = {"MCP-Protocol-Version": "2025-06-18", "Accept": "application/json, text/event-stream"}


def a_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Company:
    """An OpenID Connect provider on a socket where Ann is signed in already."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.issuer = f"http://127.0.0.1:{port}"
        self.key = RSAKey.import_key(rsa.generate_private_key(65537, 2048))
        self.nonces: dict[str, str] = {}

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._metadata)
        app.router.add_get("/jwks", self._keys)
        app.router.add_get("/authorize", self._authorize)
        app.router.add_post("/token", self._token)
        app.router.add_get("/userinfo", self._userinfo)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        try:
            yield
        finally:
            await runner.cleanup()

    async def _metadata(self, request: web.Request) -> web.Response:
        paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks"}
        paths["userinfo_endpoint"] = "userinfo"
        return web.json_response({"issuer": self.issuer} | {n: f"{self.issuer}/{p}" for n, p in paths.items()})

    async def _keys(self, request: web.Request) -> web.Response:
        return web.json_response({"keys": [{**self.key.as_dict(private=False), "kid": "k1", "use": "sig"}]})

    async def _authorize(self, request: web.Request) -> web.Response:
        code = f"code-{len(self.nonces)}"
        self.nonces[code] = request.query["nonce"]
        query = urlencode({"code": code, "state": request.query["state"]})
        raise web.HTTPFound(f"{request.query['redirect_uri']}?{query}")

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": "gateway", "sub": "ann-1", "iat": now, "exp": now + 60}
        nonce = self.nonces.pop(str(form["code"]))
        token = jwt.encode({"alg": "RS256", "kid": "k1"}, claims | {"nonce": nonce}, self.key, ["RS256"])
        return web.json_response({"access_token": "ann's", "token_type": "Bearer", "id_token": token})

    async def _userinfo(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer ann's"
        return web.json_response({"sub": "ann-1", "email": "ann@example.com", "email_verified": True})


class Stranger:
    """A program that knows a URL, and the person in front of it with a browser."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        self.signed_in = 0
        self._back = AuthorizationCodeResult(code="", state=None)

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    async def browse(self, url: str) -> None:
        """Say yes at the gateway, go through the provider, and end at the program's own address."""
        self.signed_in += 1
        async with httpx2.AsyncClient(timeout=60, trust_env=False, limits=EACH_ON_ITS_OWN) as browser:
            page = await browser.get(url)
            sealed = html.unescape(re.search(r'name="request" value="([^"]+)"', page.text)[1])  # type: ignore[index]
            gateway = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
            form = {"request": sealed, "decision": "allow"}
            answer = await browser.post(f"{gateway}/oauth/consent", data=form, headers={"Origin": gateway})
            while not answer.headers["location"].startswith(REDIRECT):
                answer = await browser.get(answer.headers["location"])
        query = {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
        self._back = AuthorizationCodeResult(code=query["code"], state=query["state"], iss=query["iss"])

    async def come_back(self) -> AuthorizationCodeResult:
        return self._back

    async def call(self, gateway: str, tool: str, **arguments: Any) -> Any:
        """Call a tool by URL only; signs in if need be."""
        auth = OAuthClientProvider(
            server_url=gateway,
            client_metadata=OAuthClientMetadata(redirect_uris=[REDIRECT], client_name="Stranger"),  # type: ignore[list-item]
            storage=self,
            redirect_handler=self.browse,
            callback_handler=self.come_back,
        )
        async with (
            httpx2.AsyncClient(auth=auth, timeout=60, trust_env=False, limits=EACH_ON_ITS_OWN) as http,
            Client(streamable_http_client(gateway, http_client=http), cache=None) as client,
        ):
            return await client.call_tool(tool, arguments)


class Balancer:
    """Sends each TCP connection to the next replica that takes it."""

    def __init__(self, *ports: int) -> None:
        self.ports = list(ports)
        self.taken = dict.fromkeys(ports, 0)
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._carry, "127.0.0.1", port)
        try:
            yield
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(len(self.ports)):
            self.ports.append(port := self.ports.pop(0))
            with contextlib.suppress(OSError):
                there = await asyncio.open_connection("127.0.0.1", port)
                self.taken[port] += 1
                break
        else:
            writer.close()
            return
        ways = [asyncio.create_task(self._pump(*way)) for way in ((reader, there[1]), (there[0], writer))]
        self._tasks.update(ways)
        for way in ways:
            way.add_done_callback(self._tasks.discard)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()


@pytest.fixture
async def replicas(site: Any) -> AsyncIterator[tuple[Any, Balancer, Company, Any]]:
    """Two brokers over one bucket behind a plain TCP balancer, with a provider: (site, balancer, company, blobs)."""
    company, port, second_port = Company(a_free_port()), a_free_port(), a_free_port()
    (site.folder / "client-secret").write_text("secret")
    second = type(site.broker)("demarkus-broker", site.folder / "second.yaml", site.folder / "second.log")
    second.health = f"127.0.0.1:{a_free_port()}"
    balancer = Balancer(site.port, second_port)
    site.url = f"http://127.0.0.1:{port}"
    with started("logins") as bucket:
        site.fields = {
            "identity": {
                "issuer": company.issuer,
                "clientID": "gateway",
                "clientSecretFile": str(site.folder / "client-secret"),
            },
            "state": {"gcs": {"url": "gs://logins", "service": bucket.address}},
            "limits": {"address": {"perSecond": 0}},
        }
        kitchen = await asyncio.to_thread(site.world, "kitchen")
        site.configure(kitchen.route())
        document = yaml.safe_load(site.broker.config.read_text())
        document["listen"] = {"http": f"127.0.0.1:{second_port}", "health": second.health}
        second.config.write_text(yaml.safe_dump(document))
        site.processes += [site.broker, second]
        blobs = GcsBlobs.open("gs://logins", service=bucket.address, authorization=Anonymous())
        async with company.serving(), balancer.serving(port):
            await asyncio.gather(*(asyncio.to_thread(broker.start) for broker in (site.broker, second)))
            yield site, balancer, company, blobs
        await blobs.close()


async def test_behind_a_balancer_a_login_begun_at_one_replica_ends_at_another(replicas: Any) -> None:
    site, balancer, _, _ = replicas
    stranger = Stranger()
    for _ in range(3):
        answer = await stranger.call(f"{site.url}/mcp", "mark_fetch", url="mark://kitchen/a.md")
        assert answer.structured_content["status"] == "not-found"
    assert stranger.signed_in == 1
    assert min(balancer.taken.values()) >= 8, balancer.taken


async def test_behind_a_balancer_a_device_gets_in(replicas: Any) -> None:
    """Each request is on a connection of its own, so each step is at another replica."""
    site, _, _, _ = replicas
    how: dict[str, Any] = {"base_url": site.url, "timeout": 60, "trust_env": False, "limits": EACH_ON_ITS_OWN}
    async with httpx2.AsyncClient(**how) as device, httpx2.AsyncClient(**how) as browser:
        client_id = (await device.post("/register", json={"redirect_uris": [REDIRECT]})).json()["client_id"]
        asked = (await device.post("/device/authorize", data={"client_id": client_id})).json()
        grant = {
            "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
            "client_id": client_id,
            "device_code": asked["device_code"],
        }
        assert (await device.post("/token", data=grant)).json()["error"] == "authorization_pending"
        assert asked["user_code"] in (await browser.get(asked["verification_uri_complete"])).text
        page = await browser.post("/device", data={"user_code": asked["user_code"]}, headers={"Origin": site.url})
        sealed = html.unescape(re.search(r'name="request" value="([^"]+)"', page.text)[1])  # type: ignore[index]
        form = {"request": sealed, "decision": "allow"}
        answer = await browser.post("/device/confirm", data=form, headers={"Origin": site.url})
        while "location" in answer.headers:
            answer = await browser.get(answer.headers["location"])
        assert "connected" in answer.text
        tokens = (await device.post("/token", data=grant)).json()
        headers = HEADERS | {"Authorization": f"Bearer {tokens['access_token']}"}
        assert (await device.post("/mcp", json=PING, headers=headers)).status_code == 200


async def test_a_replica_that_is_killed_amid_500_clients_signs_nobody_out(replicas: Any) -> None:
    """Each refreshes its token and calls; what was cut off is sent again, as clients do."""
    site, balancer, _, blobs = replicas
    async with httpx2.AsyncClient(base_url=site.url, timeout=60, trust_env=False, limits=EACH_ON_ITS_OWN) as http:
        client_id = (await http.post("/register", json={"redirect_uris": [REDIRECT]})).json()["client_id"]
        logins, now = Logins(Facts(blobs)), time.time()
        limit = asyncio.Semaphore(32)
        done: list[int] = []

        async def begin(n: int) -> str:
            async with limit:
                identity = {"sub": f"person-{n}"}
                facts = {"identity": identity, "checked": int(now), "scope": "mcp", "client_id": client_id}
                return await logins.begin(logins.new_name(int(now) + 86400), facts, person=f"s-{n:032x}", now=now)

        async def until_answered(path: str, **how: Any) -> httpx2.Response:
            for _ in range(20):
                with contextlib.suppress(httpx2.TransportError):
                    return await http.post(path, **how)
            raise AssertionError(f"no answer of {path}")

        async def live(token: str) -> None:
            async with limit:
                for _ in range(2):
                    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client_id}
                    answer = await until_answered("/token", data=form)
                    assert answer.status_code == 200, answer.text
                    token = answer.json()["refresh_token"]
                    headers = HEADERS | {"Authorization": f"Bearer {answer.json()['access_token']}"}
                    called = await until_answered("/mcp", json=PING, headers=headers)
                    assert called.status_code == 200, called.text
                done.append(1)
                if len(done) == CLIENTS // 4:
                    site.broker.kill()

        tokens = await asyncio.gather(*(begin(n) for n in range(CLIENTS)))
        await asyncio.gather(*(live(token) for token in tokens))
    assert len(done) == CLIENTS
    assert min(balancer.taken.values()) > CLIENTS // 4, balancer.taken


async def test_the_official_client_gets_in_by_url_and_stays_in_over_a_kill(site: Any, eventually: Any) -> None:
    """Discovery, registration, code and PKCE, tools; a provider that comes late; kill -9 signs nobody out."""
    company = Company(a_free_port())
    secret = site.folder / "client-secret"
    secret.write_text("the provider's secret\n")
    site.fields = {
        "identity": {"issuer": company.issuer, "clientID": "gateway", "clientSecretFile": str(secret)},
        "state": {"directory": str(site.folder / "logins")},
    }
    kitchen = await asyncio.to_thread(site.world, "kitchen")
    starting = asyncio.create_task(asyncio.to_thread(site.start_broker, kitchen.route()))
    facts = await eventually(
        "the broker to say why it is not ready", lambda: asyncio.to_thread(site.broker.facts), seconds=60
    )
    assert facts["ready"] is False
    assert facts["reasons"] == ["the sign-in provider has not answered yet"]
    async with company.serving():
        await starting
        stranger = Stranger()
        note = {"url": "mark://kitchen/a.md", "body": "by a stranger", "expected_version": 0}
        answer = await stranger.call(f"{site.url}/mcp", "mark_publish", **note)
        assert answer.structured_content["status"] == "created"
        site.broker.kill()
        await asyncio.to_thread(site.broker.start)
        answer = await stranger.call(f"{site.url}/mcp", "mark_fetch", url="mark://kitchen/a.md")
        assert "by a stranger" in str(answer.structured_content)
        assert stranger.signed_in == 1
        assert stranger.tokens is not None
        assert stranger.client is not None
        form = {"grant_type": "refresh_token", "refresh_token": stranger.tokens.refresh_token}
        async with site.http_client(None) as http:
            refreshed = await http.post("/token", data={**form, "client_id": stranger.client.client_id})
        assert refreshed.status_code == 200
    told = site.broker.text()
    for secret_text in ("the provider's secret", "ann@example.com", "ann's", stranger.tokens.access_token[-40:]):
        assert secret_text not in told
    assert str(refreshed.json()["refresh_token"]) not in told
