"""Facts as Secrets of Kubernetes, in a namespace of their own: for universes without a bucket, up to 2,000 logins.

A key is a name with `/` for `.`; its first segment and its first two are labels, so that a list asks the API server
only for what it may want. Secrets are immutable. The API server does what the four calls promise: a POST of a name that
is taken is refused, whoever sends it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp

from demarkus_base.blobs.port import (
    Exists,
    Integrity,
    NotFound,
    Permanent,
    StoreFull,
    Throttled,
    Unavailable,
    check_object,
)

MOST_LOGINS = 2000
TIMEOUT = 10.0
"""Seconds for a call."""
PAGE = 500
KIND, GROUP = "demarkus.io/fact-kind", "demarkus.io/fact-group"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_KEY = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(/[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_NAMES_ONLY = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

Token = Callable[[], Awaitable[str]]


class SecretBlobs:
    """Facts in a namespace. See `Blobs` for the calls."""

    exclusive = False

    def __init__(self, *, session: aiohttp.ClientSession, server: str, namespace: str, token: Token) -> None:
        """`server` is the API server's URL; `session` trusts it and is closed with the store."""
        self._session = session
        self._secrets = f"{server.rstrip('/')}/api/v1/namespaces/{namespace}/secrets"
        self._namespace = namespace
        self._token = token

    @classmethod
    def in_cluster(cls, namespace: str, *, environment: Mapping[str, str], account: Path = ACCOUNT) -> SecretBlobs:
        """The store of the cluster in which this process runs. Must be called in a running loop.

        Raises ValueError outside of one.
        """
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise ValueError("state.kubernetes works only in a cluster; elsewhere give state.directory")
        trust = ssl.create_default_context(cafile=str(account / "ca.crt"))
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust, limit=32),
            timeout=aiohttp.ClientTimeout(total=TIMEOUT),
            trust_env=False,
        )

        async def token() -> str:
            return await asyncio.to_thread((account / "token").read_text)

        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        return cls(session=session, server=server, namespace=namespace, token=token)

    async def get(self, key: str) -> bytes:
        """See `Blobs.get`."""
        content = await self._call("GET", f"{self._secrets}/{name_of(key)}")
        try:
            return base64.b64decode(content["data"]["fact"], validate=True)
        except (KeyError, TypeError, ValueError, binascii.Error):
            raise Integrity(f"Secret {name_of(key)} holds no fact") from None

    async def create(self, key: str, data: bytes) -> None:
        """See `Blobs.create`."""
        check_object(key, data)
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "immutable": True,
            "metadata": {"name": name_of(key), "namespace": self._namespace, "labels": labels_of(key)},
            "data": {"fact": base64.b64encode(data).decode()},
        }
        await self._call("POST", self._secrets, body=secret, mutates=True)

    async def delete(self, key: str) -> None:
        """See `Blobs.delete`."""
        await self._call("DELETE", f"{self._secrets}/{name_of(key)}", mutates=True)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        """See `Blobs.list`."""
        found: list[str] = []
        query = {"limit": str(PAGE), "labelSelector": selector_of(prefix)}
        while True:
            content = await self._call("GET", self._secrets, query=query, accept=_NAMES_ONLY)
            found += [str(item["metadata"]["name"]).replace(".", "/") for item in content.get("items") or []]
            query["continue"] = content.get("metadata", {}).get("continue", "")
            if not query["continue"]:
                break
        for key in sorted(key for key in found if key.startswith(prefix) and key > after):
            yield key

    async def close(self) -> None:
        """Let go of all connections."""
        await self._session.close()

    async def _call(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        accept: str = "application/json",
        mutates: bool = False,
    ) -> Mapping[str, Any]:
        try:
            headers = {"Authorization": f"Bearer {(await self._token()).strip()}", "Accept": accept}
        except OSError as error:
            raise Permanent(f"no token for the API server: {error.strerror}") from None
        try:
            async with self._session.request(method, url, params=query, json=body, headers=headers) as answer:
                content = await answer.json(content_type=None)
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Unavailable(f"the API server does not answer: {type(error).__name__}", ambiguous=mutates) from None
        if not isinstance(content, dict):
            raise Unavailable("the API server answers something else than an object", ambiguous=mutates)
        if status < 300:
            return content
        raise _refusal(status, content, self._namespace, mutates=mutates)


def name_of(key: str) -> str:
    """The name of a key's Secret. Raises ValueError for a key that has none."""
    name = key.replace("/", ".")
    if not _KEY.fullmatch(key) or len(name) > 253:
        raise ValueError(f"key {key!r}: not a name of ours")
    return name


def labels_of(key: str) -> dict[str, str]:
    """What a list can ask for."""
    segments = key.split("/")
    return {KIND: segments[0], GROUP: ".".join(segments[:2])}


def selector_of(prefix: str) -> str:
    """What to ask for where keys begin with a prefix: as much of it as is whole segments."""
    whole = prefix.split("/")[:-1]
    if len(whole) >= 2:
        return f"{GROUP}={'.'.join(whole[:2])}"
    return f"{KIND}={whole[0]}" if whole else KIND


def _refusal(status: int, content: Mapping[str, Any], namespace: str, *, mutates: bool) -> Exception:
    reason = str(content.get("reason", ""))
    about = content.get("details")
    kind = about.get("kind") if isinstance(about, dict) else None
    where = f"the API server refuses a Secret in namespace {namespace}"
    if status == 404:
        return Permanent(f"there is no namespace {namespace}") if kind == "namespaces" else NotFound("no such Secret")
    if status == 409 and reason == "AlreadyExists":
        return Exists("there is such a Secret")
    if status == 429:
        return Throttled("the API server has too many requests")
    if status == 403 and "exceeded quota" in str(content.get("message", "")):
        return StoreFull(f"{where}: its quota is used up")
    if status in (400, 401, 403, 404, 405, 413, 415, 422):
        return Permanent(f"{where} ({status} {reason}): it needs get, list, create and delete there")
    return Unavailable(f"the API server answers {status} {reason}", ambiguous=mutates)
