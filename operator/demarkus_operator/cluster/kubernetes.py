"""The port over the Kubernetes API, by the transport of the official client (`kubernetes.aio`).

Of that client only connection, TLS, and credentials are used; objects stay the dictionaries they are on the wire, and
paths come from `kinds.py`. Nothing is retried here: whoever calls has a queue with a backoff. Every write names our
field manager and asks for strict field validation, so that a misspelt field is an error instead of a silence.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration

from demarkus_operator.cluster.apply import MANAGER
from demarkus_operator.cluster.kinds import SECRET, kind_of
from demarkus_operator.cluster.port import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    PortError,
    TryLater,
)
from demarkus_operator.plan.objects import Manifest, Ref

CALL_SECONDS = 15.0
PAGE = 500
"""Objects in one answer to a list."""
MESSAGE_LENGTH = 600

_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_WRITE = {"fieldManager": MANAGER, "fieldValidation": "Strict"}


class Kubernetes:
    """`Port` over an API server. An async context manager; closing it closes its connections."""

    def __init__(self, configuration: Configuration, *, seconds: float = CALL_SECONDS) -> None:
        configuration.retries = None
        self._client = ApiClient(configuration)
        self._timeout = aiohttp.ClientTimeout(total=seconds)

    async def __aenter__(self) -> Kubernetes:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def get(self, ref: Ref) -> Manifest:
        return await self._call("get", "GET", ref)

    async def list(
        self, api_version: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Sequence[Manifest]:
        # Without a limit: older API servers answer only such lists from memory.
        found, _ = await self._page(api_version, kind, namespace, _selector(labels))
        return found

    async def pages(
        self, api_version: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[Sequence[Manifest]]:
        query = {"limit": str(PAGE), **_selector(labels)}
        while True:
            found, token = await self._page(api_version, kind, namespace, query)
            yield found
            if not token:
                return
            query["continue"] = token

    async def _page(
        self, api_version: str, kind: str, namespace: str | None, query: Mapping[str, str]
    ) -> tuple[Sequence[Manifest], str]:
        path = kind_of(api_version, kind).path(namespace)
        page = await self._send("GET", path, f"list {kind}" + (f" in {namespace}" if namespace else ""), query=query)
        # Items of a list come without these two.
        found = [{"apiVersion": api_version, "kind": kind, **item} for item in page["items"] or ()]
        return found, page["metadata"].get("continue") or ""

    async def create(self, manifest: Manifest) -> Manifest:
        return await self._call("create", "POST", Ref.of(manifest), query=_WRITE, body=manifest)

    async def apply(self, manifest: Manifest) -> Manifest:
        query = {**_WRITE, "force": "true"}
        return await self._call("apply", "PATCH", Ref.of(manifest), query=query, body=manifest, content=_APPLY)

    async def patch(self, ref: Ref, patch: Mapping[str, Any], resource_version: str) -> Manifest:
        guarded = {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": resource_version}}
        return await self._call("patch", "PATCH", ref, query=_WRITE, body=guarded, content=_MERGE)

    async def delete(self, ref: Ref, *, uid: str | None = None) -> None:
        options: dict[str, Any] = {"propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._call("delete", "DELETE", ref, body=options)
        except NotFound:
            return

    async def patch_status(self, ref: Ref, status: Mapping[str, Any]) -> Manifest:
        body = {"status": status}
        return await self._call("patch", "PATCH", ref, subresource="status", query=_WRITE, body=body, content=_MERGE)

    async def _call(
        self,
        verb: str,
        method: str,
        ref: Ref,
        *,
        subresource: str | None = None,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        content: str = _JSON,
    ) -> dict[str, Any]:
        kind = kind_of(ref.api_version, ref.kind)
        name = None if method == "POST" else ref.name
        path = kind.path(ref.namespace or None, name, subresource)
        what = f"{verb} {ref}" + (f" {subresource}" if subresource else "")
        quiet = kind is SECRET
        return await self._send(method, path, what, query=query, body=body, content=content, quiet=quiet)

    async def _send(
        self,
        method: str,
        path: str,
        what: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        content: str = _JSON,
        quiet: bool = False,
    ) -> dict[str, Any]:
        """One call. `what` is how messages name it; with `quiet` they leave out what the server says of the object."""
        try:
            request = await self._client.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params={"Accept": _JSON, "Content-Type": content},
                body=body,
                auth_settings=["BearerToken"],
            )
            response = await self._client.call_api(*request, _request_timeout=self._timeout)
            data = await response.read()
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise TryLater(f"{what}: {type(error).__name__}: {error}") from error
        answer = _decoded(data)
        if 200 <= response.status <= 299:
            return answer
        raise failure(response.status, answer, response.headers.get("Retry-After"), what=what, quiet=quiet)


def _selector(labels: Mapping[str, str] | None) -> dict[str, str]:
    """The query that selects by labels."""
    return {"labelSelector": ",".join(f"{key}={value}" for key, value in sorted(labels.items()))} if labels else {}


def _decoded(data: bytes) -> dict[str, Any]:
    """The answer as an object; a proxy in between may answer something else."""
    try:
        answer = json.loads(data)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def failure(status: int, answer: Mapping[str, Any], retry_after: str | None, *, what: str, quiet: bool) -> PortError:
    """The error for an answer (a `Status` of the API) that is not a success."""
    reason = str(answer.get("reason") or "")
    said = "" if quiet else str(answer.get("message") or "")[:MESSAGE_LENGTH]
    message = f"{what}: {status} {reason}".rstrip() + (f": {said}" if said else "")
    if status == 404:
        return NotFound(message)
    if status == 409:
        return AlreadyExists(message) if reason == "AlreadyExists" else Conflict(message)
    if any(cause.get("field") == "metadata.uid" for cause in (answer.get("details") or {}).get("causes", ())):
        return Conflict(message)  # to the API server, a guard that does not hold is a change of an immutable field
    # A field that the schema does not know makes an apply (not the other writes) end as a server error.
    unknown_field = status == 500 and "failed to create typed patch object" in str(answer.get("message"))
    if status in (400, 413, 422) or unknown_field:
        return Invalid(message)
    if status == 403:
        return Forbidden(message)
    # 401 is a token that was just replaced; 410 a list that took too long.
    if status in (401, 408, 410, 429) or status >= 500:
        return TryLater(message, delay=float(retry_after) if retry_after and retry_after.isdigit() else None)
    return PortError(message)
