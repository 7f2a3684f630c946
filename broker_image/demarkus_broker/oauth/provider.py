"""The company's OpenID Connect provider: where people sign in, and what it says of them.

Discovery and keys are fetched when they are needed and kept; a provider that can't be reached for a while is no reason
to forget them. Its tokens go no further than here.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from demarkus_broker.oauth import id_tokens
from demarkus_broker.oauth.outbound import Answer, Outbound, OutboundError
from demarkus_broker.settings import IdentitySettings, is_loopback

FRESH = 3600
"""Seconds for which discovery and keys are taken from memory."""
PATIENCE = 30
"""Seconds between two fetches of keys because of a token whose key is not known."""


class ProviderError(Exception):
    """Nobody could be signed in. The text is for the log: it holds nothing of what was sent or answered."""


class UnavailableError(ProviderError):
    """The provider does not answer; try later."""


class RefusedError(ProviderError):
    """The provider does not stand by a person or code (any more)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """What discovery says (OpenID Connect Discovery 1.0)."""

    authorization: str
    token: str
    keys: str
    userinfo: str | None
    basic: bool
    sends_issuer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """Whom the provider signed in: their claims, and the token with which they are asked for anew."""

    claims: Mapping[str, Any]
    refresh_token: str | None = field(repr=False)


class Provider:
    """The provider of `settings`. `secret` gives the client's secret."""

    def __init__(
        self,
        settings: IdentitySettings,
        *,
        secret: Callable[[], Awaitable[str]],
        outbound: Outbound,
        redirect_uri: str,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self._secret = secret
        self._outbound = outbound
        self._redirect_uri = redirect_uri
        self._now = now
        self._endpoints: Endpoints | None = None
        self._keys = KeySet([])
        self._discovered = self._keys_fetched = float("-inf")

    @property
    def origin(self) -> str | None:
        """Scheme and host of where people are sent to, once that is known."""
        parts = urlsplit(self._endpoints.authorization) if self._endpoints else None
        return f"{parts.scheme}://{parts.netloc}" if parts else None

    async def discover(self) -> Endpoints:
        """Where the provider's endpoints are. Raises UnavailableError, ProviderError."""
        now = self._now()
        if self._endpoints is not None and now - self._discovered < FRESH:
            return self._endpoints
        try:
            found = await self._json(f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration")
            self._endpoints = _endpoints(found, self.settings.issuer)
        except ProviderError:
            if self._endpoints is None:
                raise
        self._discovered = now
        return self._endpoints

    async def login_url(self, *, state: str, nonce: str, challenge: str) -> str:
        """Where somebody's browser is sent to. Raises ProviderError."""
        endpoints = await self.discover()
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(dict.fromkeys(("openid", *self.settings.scopes))),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        if self.settings.issuer == id_tokens.GOOGLE:
            # Google has no such scope and calls the same thing by another name.
            query["scope"] = " ".join(word for word in query["scope"].split() if word != "offline_access")
            query |= {"access_type": "offline", "prompt": "consent"} if "offline_access" in self.settings.scopes else {}
        mark = "&" if "?" in endpoints.authorization else "?"
        return f"{endpoints.authorization}{mark}{urlencode(query)}"

    async def is_answer(self, issuer: str | None) -> bool:
        """Whether an answer with this `iss` is the provider's (RFC 9207). Raises ProviderError."""
        endpoints = await self.discover()
        return issuer == self.settings.issuer if issuer is not None else not endpoints.sends_issuer

    async def exchange(self, code: str, *, verifier: str, nonce: str) -> SignedIn:
        """Whom a code stands for. Raises ProviderError."""
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": self._redirect_uri}
        answer = await self._token(form | {"code_verifier": verifier})
        return await self._signed_in(answer, nonce=nonce)

    async def renew(self, refresh_token: str, *, subject: str) -> SignedIn:
        """What holds of a person now. Raises ProviderError; RefusedError if the provider has let go of them."""
        answer = await self._token({"grant_type": "refresh_token", "refresh_token": refresh_token})
        if "id_token" in answer:
            found = await self._signed_in(answer, nonce=None)
        else:
            claims = await self._userinfo(answer, subject)
            if claims is None:
                raise ProviderError("the provider's renewal says nothing of the person")
            found = SignedIn(
                claims=id_tokens.kept(claims, issuer=self.settings.issuer), refresh_token=_text(answer, "refresh_token")
            )
        if found.claims.get("sub") != subject:
            raise RefusedError("the provider's renewal is about somebody else")
        return SignedIn(claims=found.claims, refresh_token=found.refresh_token or refresh_token)

    async def _signed_in(self, answer: Mapping[str, Any], *, nonce: str | None) -> SignedIn:
        token = _text(answer, "id_token")
        if token is None:
            raise ProviderError("the provider's answer has no id_token")
        claims = await self._verified(token, nonce)
        more = await self._userinfo(answer, claims["sub"]) or {}
        return SignedIn(
            claims=id_tokens.kept({**more, **claims}, issuer=self.settings.issuer),
            refresh_token=_text(answer, "refresh_token"),
        )

    async def _verified(self, token: str, nonce: str | None) -> dict[str, Any]:
        if self._now() - self._keys_fetched > FRESH:
            await self._fetch_keys()
        try:
            return self._verify(token, nonce)
        except id_tokens.IdTokenError as error:
            if not error.unknown_key or self._now() - self._keys_fetched < PATIENCE:
                raise ProviderError(f"the provider's id_token: {error}") from None
        await self._fetch_keys()
        try:
            return self._verify(token, nonce)
        except id_tokens.IdTokenError as error:
            raise ProviderError(f"the provider's id_token: {error}") from None

    def _verify(self, token: str, nonce: str | None) -> dict[str, Any]:
        return id_tokens.verify(
            token,
            self._keys,
            issuer=self.settings.issuer,
            client_id=self.settings.client_id,
            nonce=nonce,
            now=self._now(),
        )

    async def _fetch_keys(self) -> None:
        found = await self._json((await self.discover()).keys)
        try:
            self._keys = KeySet.import_key_set({"keys": _usable(found.get("keys"))})
        except (JoseError, ValueError, TypeError, KeyError):
            raise ProviderError("the provider's key set can't be read") from None
        self._keys_fetched = self._now()

    async def _token(self, form: Mapping[str, str]) -> Mapping[str, Any]:
        endpoints = await self.discover()
        client_id, secret = self.settings.client_id, await self._secret()
        headers = {"Accept": "application/json"}
        if endpoints.basic:
            pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()
        else:
            form = {**form, "client_id": client_id, "client_secret": secret}
        answer = await self._ask("POST", endpoints.token, headers=headers, form=form)
        content = _object(answer.body)
        if answer.status == 200 and content is not None:
            return content
        if answer.status >= 500 or answer.status == 429:
            raise UnavailableError(f"the provider's token endpoint answers {answer.status}")
        if content is not None and content.get("error") == "invalid_grant":
            raise RefusedError("the provider does not take the code or token (any more)")
        raise ProviderError(f"the provider's token endpoint answers {answer.status}; check clientID and its secret")

    async def _userinfo(self, answer: Mapping[str, Any], subject: str) -> Mapping[str, Any] | None:
        """More about a person, where the provider has it; it never stands in the way of signing in."""
        endpoints, token = await self.discover(), _text(answer, "access_token")
        if endpoints.userinfo is None or token is None:
            return None
        try:
            found = await self._json(endpoints.userinfo, headers={"Authorization": f"Bearer {token}"})
        except ProviderError:
            return None
        return found if found.get("sub") == subject else None

    async def _json(self, url: str, *, headers: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        answer = await self._ask("GET", url, headers={"Accept": "application/json", **(headers or {})})
        content = _object(answer.body)
        if answer.status != 200 or content is None:
            raise UnavailableError(f"the provider answers {answer.status} where its metadata should be")
        return content

    async def _ask(
        self, method: str, url: str, *, headers: Mapping[str, str], form: Mapping[str, str] | None = None
    ) -> Answer:
        try:
            return await self._outbound.request(method, url, headers=headers, form=form)
        except OutboundError as error:
            raise UnavailableError(f"the provider can't be reached: {error}") from None


def _endpoints(found: Mapping[str, Any], issuer: str) -> Endpoints:
    if found.get("issuer") != issuer:
        raise ProviderError("the provider calls itself another issuer than identity.issuer")
    names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    urls = [_text(found, name) for name in names]
    for name, url in zip(names, urls, strict=True):
        if url is None or not _is_secure(url):  # also what is no URL
            raise ProviderError(f"the provider's metadata has no https {name}")
    authorization, token, keys = (url or "" for url in urls)
    userinfo = _text(found, "userinfo_endpoint")
    methods = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return Endpoints(
        authorization=authorization,
        token=token,
        keys=keys,
        userinfo=userinfo if userinfo and _is_secure(userinfo) else None,
        basic=not isinstance(methods, list) or "client_secret_basic" in methods,
        sends_issuer=found.get("authorization_response_iss_parameter_supported") is True,
    )


def _is_secure(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def _usable(keys: object) -> list[Any]:
    """Public keys of the kinds that ID tokens are signed with; the rest of a key set is not ours to understand."""
    listed = keys if isinstance(keys, list) else []
    return [key for key in listed if isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP")][:100]


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _text(content: Mapping[str, Any], name: str) -> str | None:
    value = content.get(name)
    return value if isinstance(value, str) and value else None
