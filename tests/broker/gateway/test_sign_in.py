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
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwt
from joserfc.jwk import RSAKey
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

REDIRECT = "http://127.0.0.1:51234/callback"


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
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as browser:
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
            httpx2.AsyncClient(auth=auth, timeout=60, trust_env=False) as http,
            Client(streamable_http_client(gateway, http_client=http), cache=None) as client,
        ):
            return await client.call_tool(tool, arguments)


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
