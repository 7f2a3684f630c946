"""A gateway where people can sign in: replicas over one store, a provider with real keys, browsers and clients."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc import jwt
from joserfc.jwk import ECKey
from prometheus_client import CollectorRegistry

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_broker import keys
from demarkus_broker.front import PERSON, Front
from demarkus_broker.metrics import Metrics
from demarkus_broker.oauth.documents import Documents
from demarkus_broker.oauth.outbound import Answer, OutboundError
from demarkus_broker.oauth.pkce import challenge_of
from demarkus_broker.oauth.provider import Provider
from demarkus_broker.oauth.routes import routes
from demarkus_broker.oauth.server import AuthorizationServer, State
from demarkus_broker.settings import BrokerSettings
from demarkus_broker.state.names import digest

URL = "https://mark.example.com"
ISSUER = "https://accounts.example.com"
NOW = 1_800_000_000
VERIFIER = "v" * 50
REDIRECT = "http://127.0.0.1:5000/callback"
SECRET = "web-secret"


@dataclass
class Clock:
    """What time it is for everybody."""

    at: float = NOW

    def __call__(self) -> float:
        return self.at


@dataclass
class Company:
    """The company's provider, as the gateway reaches it and as a person's browser does."""

    clock: Clock
    key: ECKey = field(default_factory=lambda: ECKey.import_key(ec.generate_private_key(ec.SECP256R1())))
    claims: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    down: bool = False
    refresh_tokens: bool = False
    wrong_token: Callable[[dict[str, Any]], str] | None = None
    asked: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)

    def id_token(self, header: Mapping[str, Any] | None = None, key: ECKey | None = None, **claims: Any) -> str:
        now = int(self.clock())
        content = {"iss": ISSUER, "aud": "gateway", "sub": "ann-1", "iat": now, "exp": now + 3600}
        content |= {"email": "ann@example.com", "email_verified": True}
        content |= self.claims | claims
        return jwt.encode({"alg": "ES256", "kid": "k1"} | dict(header or {}), content, key or self.key, ["ES256"])

    def sign_in(self, url: str) -> str:
        """What a browser that is sent to `url` comes back with, once Ann has signed in there."""
        asked = dict(parse_qsl(urlsplit(url).query))
        assert url.startswith(f"{ISSUER}/authorize?")
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state'], 'iss': ISSUER})}"

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], form: Mapping[str, str] | None = None
    ) -> Answer:
        self.asked.append(url)
        if self.down:
            raise OutboundError("down")
        path = url.removeprefix(ISSUER)
        if path == "/.well-known/openid-configuration":
            return self._json(
                {
                    "issuer": ISSUER,
                    "authorization_endpoint": f"{ISSUER}/authorize",
                    "token_endpoint": f"{ISSUER}/token",
                    "jwks_uri": f"{ISSUER}/jwks",
                    "authorization_response_iss_parameter_supported": True,
                }
                | self.metadata
            )
        if path == "/jwks":
            return self._json({"keys": [{**self.key.as_dict(private=False), "kid": "k1", "use": "sig"}]})
        assert path == "/token"
        assert form is not None
        if headers["Authorization"] != "Basic " + base64.b64encode(b"gateway:provider-secret").decode():
            return self._json({"error": "invalid_client"}, 401)
        return self._token(form)

    def _token(self, form: Mapping[str, str]) -> Answer:
        answer: dict[str, Any] = {"access_token": "x", "token_type": "Bearer"}
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.live:
                return self._json({"error": "invalid_grant"}, 400)
            self.live.discard(form["refresh_token"])
            claims: dict[str, Any] = {}
        else:
            asked = self.codes.pop(form["code"], None)
            if asked is None or asked["code_challenge"] != challenge_of(form["code_verifier"]):
                return self._json({"error": "invalid_grant"}, 400)
            claims = {"nonce": asked["nonce"]}
        if self.refresh_tokens:
            answer["refresh_token"] = f"provider-{len(self.asked)}"
            self.live.add(answer["refresh_token"])
        answer["id_token"] = self.wrong_token(claims) if self.wrong_token else self.id_token(**claims)
        return self._json(answer)

    @staticmethod
    def _json(content: Any, status: int = 200) -> Answer:
        return Answer(status=status, headers={"content-type": "application/json"}, body=json.dumps(content).encode())


@dataclass
class Web:
    """The rest of the web, where clients describe themselves."""

    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def describe(self, url: str, *, headers: Mapping[str, str] | None = None, **fields: Any) -> None:
        content = {"client_id": url, "client_name": "Code", "redirect_uris": ["http://localhost/callback"]} | fields
        self.answers[url] = Answer(
            status=200,
            headers={"content-type": "application/json", **(headers or {})},
            body=json.dumps(content).encode(),
        )

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], form: Mapping[str, str] | None = None
    ) -> Answer:
        self.asked.append(url)
        if url not in self.answers:
            raise OutboundError("no answer")
        return self.answers[url]


class Browser:
    """Somebody's browser in front of the gateway: keeps cookies, follows nothing by itself."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.jar = httpx2.Cookies()

    async def go(self, method: str, url: str, *, replica: int = 0, **how: Any) -> httpx2.Response:
        if not url.startswith("http"):
            url = URL + url
        client = self.site.replicas[replica]
        client.cookies = self.jar
        answer = await client.request(method, url, **how)
        self.jar = httpx2.Cookies(client.cookies)
        client.cookies = httpx2.Cookies()
        return answer

    async def submit(self, page: httpx2.Response, decision: str = "allow", **how: Any) -> httpx2.Response:
        """Answer the question of a page."""
        action = html.unescape(re.search(r'action="([^"]+)"', page.text)[1])  # type: ignore[index]
        sealed = html.unescape(re.search(r'name="request" value="([^"]+)"', page.text)[1])  # type: ignore[index]
        how.setdefault("headers", {"Origin": URL, "Sec-Fetch-Site": "same-origin"})
        return await self.go("POST", action, data={"request": sealed, "decision": decision}, **how)


class Site:
    """The gateway."""

    def __init__(self, key_files: Any) -> None:
        self.clock = Clock()
        self.company = Company(self.clock)
        self.web = Web()
        self.blobs = MemoryBlobs()
        self.key_files = key_files
        self.settings = self.configured()
        self.persons: list[Any] = []
        self.replicas: list[httpx2.AsyncClient] = []
        self.servers: list[AuthorizationServer] = []
        self.restart()

    def configured(self, **identity: Any) -> BrokerSettings:
        return BrokerSettings.model_validate(
            {
                "publicURL": URL,
                "listen": {"http": "127.0.0.1:0", "health": "127.0.0.1:0"},
                "keys": {"directory": "/keys"},
                "caBundle": "/ca.crt",
                "identity": {"issuer": ISSUER, "clientID": "gateway", "clientSecretFile": "/secret"} | identity,
                "state": {"directory": "/state"},
                "webClients": [
                    {
                        "clientID": "chat",
                        "name": "Chat",
                        "redirectURIs": ["https://chat.example/cb"],
                        "secretHash": digest(SECRET),
                    }
                ],
            }
        )

    def configure(self, **identity: Any) -> None:
        """Change the settings of `identity`, for all replicas."""
        self.settings = self.configured(**identity)

    def restart(self) -> None:
        """Two new processes over the same keys and the same store."""
        self.servers = [self._server() for _ in range(2)]
        self.replicas = [self._replica(server) for server in self.servers]

    def browser(self) -> Browser:
        return Browser(self)

    async def ask(self, method: str, path: str, *, replica: int = 0, **how: Any) -> httpx2.Response:
        """A client's request."""
        return await self.replicas[replica].request(method, path, **how)

    async def register(self, **fields: Any) -> str:
        answer = await self.ask("POST", "/register", json={"redirect_uris": ["http://127.0.0.1/callback"]} | fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["client_id"])

    def query(self, client_id: str, **fields: str | None) -> str:
        values = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": REDIRECT,
            "code_challenge": challenge_of(VERIFIER),
            "code_challenge_method": "S256",
            "state": "client-state",
            "resource": f"{URL}/mcp",
        } | fields
        return "/oauth/authorize?" + urlencode({name: value for name, value in values.items() if value is not None})

    async def come_back(self, client_id: str, *, replicas: tuple[int, int, int] = (0, 0, 0), **fields: Any) -> Any:
        """Sign in with a browser; gives the parameters with which it comes back to the client."""
        browser = self.browser()
        page = await browser.go("GET", self.query(client_id, **fields), replica=replicas[0])
        assert page.status_code == 200, page.text
        leave = await browser.submit(page, replica=replicas[1])
        assert leave.status_code == 303, leave.text
        back = await browser.go("GET", self.company.sign_in(leave.headers["location"]), replica=replicas[2])
        return parameters_of(back)

    async def token(self, *, replica: int = 0, path: str = "/token", **form: Any) -> httpx2.Response:
        auth = form.pop("auth", None)
        fields = {name: value for name, value in form.items() if value is not None}
        return await self.ask("POST", path, replica=replica, data=fields, auth=auth)

    async def redeem(self, client_id: str, code: str, **fields: Any) -> httpx2.Response:
        form = {"grant_type": "authorization_code", "client_id": client_id, "code": code}
        return await self.token(**form | {"redirect_uri": REDIRECT, "code_verifier": VERIFIER} | fields)

    async def refresh(self, client_id: str, token: str, **fields: Any) -> httpx2.Response:
        return await self.token(grant_type="refresh_token", client_id=client_id, refresh_token=token, **fields)

    async def signed_in(self, **fields: Any) -> tuple[str, dict[str, Any]]:
        """A client with tokens of Ann's."""
        client_id = await self.register()
        back = await self.come_back(client_id, **fields)
        answer = await self.redeem(client_id, back["code"])
        assert answer.status_code == 200, answer.text
        return client_id, answer.json()

    async def call(self, bearer: str, *, path: str = "/mcp", replica: int = 0) -> httpx2.Response:
        """A call to the MCP endpoint; whom it was for is noted in `persons`."""
        return await self.ask("POST", path, replica=replica, json={}, headers={"Authorization": f"Bearer {bearer}"})

    async def blobs_under(self, prefix: str) -> list[str]:
        """The keys in the store that begin with a prefix."""
        return [key async for key in self.blobs.list(prefix)]

    async def _mcp(self, scope: Any, receive: Any, send: Any) -> None:
        self.persons.append(scope[PERSON])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    def _server(self) -> AuthorizationServer:
        provider: list[Any] = []

        async def secret() -> str:
            return "provider-secret"

        def current() -> Provider:
            identity = self.settings.identity
            assert identity is not None
            if not provider or provider[0].settings != identity:
                provider[:] = [
                    Provider(
                        identity,
                        secret=secret,
                        outbound=self.company,
                        redirect_uri=f"{URL}/auth/callback",
                        now=self.clock,
                    )
                ]
            return provider[0]

        loaded = keys.load(self.key_files.files(), source="keys")
        return AuthorizationServer(
            settings=lambda: self.settings,
            keys=lambda: loaded,
            state=State(self.blobs),
            durable=True,
            provider=current,
            documents=Documents(self.web, now=self.clock),
            metrics=Metrics(CollectorRegistry()),
            now=self.clock,
        )

    def _replica(self, server: AuthorizationServer) -> httpx2.AsyncClient:
        front = Front(
            mcp=self._mcp,
            settings=lambda: self.settings,
            keys=server.keys,
            sign_in=routes(server),
            can_sign_in=lambda: server.is_open,
            lifespan=lambda app: contextlib.nullcontext(),  # type: ignore[arg-type, return-value]
            metrics=server.metrics,
            now=self.clock,
        )
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=front), base_url=URL)


def parameters_of(answer: httpx2.Response) -> dict[str, str]:
    """What a redirect carries; `to` is where it leads."""
    assert answer.status_code == 303, answer.text
    parts = urlsplit(answer.headers["location"])
    found = {name: values[0] for name, values in parse_qs(parts.query, strict_parsing=True).items()}
    return {**found, "to": f"{parts.scheme}://{parts.netloc}{parts.path}"}


@pytest.fixture
def site(key_files: Any) -> Site:
    """A gateway with two replicas."""
    return Site(key_files)
