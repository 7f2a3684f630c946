"""Buckets over the JSON API of Google Cloud Storage.

Every change is guarded by what was seen: by the metageneration of the bucket, the etag of its policy, the generation of
an object. An answer is remembered for some minutes, and forgotten with the next change.

Source: Cloud Storage JSON API, "Buckets", "Objects: list, get, delete", "Request preconditions".
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import aiohttp
from cachetools import TTLCache
from yarl import URL

from demarkus_base.blobs.gcs import SERVICE, ApplicationDefault, Authorization
from demarkus_base.blobs.port import BlobError
from demarkus_operator.cluster.port import Conflict, Forbidden, Invalid, NotFound, PortError, TryLater
from demarkus_operator.plan.bucket_facts import Admit, BucketFacts, BucketQuestion, Change, Make, Step

SCOPE = "https://www.googleapis.com/auth/devstorage.full_control"
KNOWN_SECONDS = 540.0
"""How long an answer counts: a little less than the time between two looks at everything."""
CALL_SECONDS = 10.0
EMPTY_SECONDS = 20.0
"""How long one go of emptying takes."""
AT_ONCE = 16

_MOST_KNOWN = 20_000
_LONGEST_ANSWER = 1 << 22
_MARKER = "world.json"


class Google:
    """`Buckets` over HTTPS. `project` is where buckets are made; without one none is."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        project: str | None,
        authorization: Authorization | None = None,
        service: str = SERVICE,
        clock: Callable[[], float] = time.monotonic,
        known_seconds: float = KNOWN_SECONDS,
    ) -> None:
        """The session stays the caller's to close."""
        self._session = session
        self._project = project
        self._authorization = authorization or ApplicationDefault(scope=SCOPE)
        self._base = f"{service.rstrip('/')}/storage/v1/b"
        self._clock = clock
        self._known: TTLCache[BucketQuestion, BucketFacts] = TTLCache(_MOST_KNOWN, known_seconds, timer=clock)

    async def look(self, question: BucketQuestion, *, anew: bool = False) -> BucketFacts | None:
        """See `Buckets.look`."""
        known = None if anew else self._known.get(question)
        if known is not None:
            return known
        try:
            facts = await self._facts(question)
        except PortError as error:
            return BucketFacts(problem=str(error))
        self._known[question] = facts
        return facts

    async def carry_out(self, step: Step) -> None:
        """See `Buckets.carry_out`."""
        for question in [one for one in self._known if one.name == step.bucket]:
            del self._known[question]
        place = f"/{quote(step.bucket, safe='')}"
        match step:
            case Make():
                if self._project is None:
                    raise Invalid(
                        f"make bucket {step.bucket}: the operator knows no project to make it in; make the bucket, or "
                        "start the operator with one"
                    )
                body = {"name": step.bucket, **step.settings}
                try:
                    await self._call("POST", f"?project={quote(self._project, safe='')}", f"make {step.bucket}", body)
                except Conflict:
                    return  # somebody was faster, or it is another's: the next look tells
            case Change():
                guard = f"?ifMetagenerationMatch={step.metageneration}" if step.metageneration else ""
                await self._call("PATCH", f"{place}{guard}", f"change {step.bucket}", step.settings)
            case Admit():
                await self._call("PUT", f"{place}/iam", f"change the policy of {step.bucket}", step.policy)

    async def empty(self, question: BucketQuestion, *, remove: bool) -> bool:
        """See `Buckets.empty`."""
        self._known.pop(question, None)
        place = f"/{quote(question.name, safe='')}"
        began = self._clock()
        gate = asyncio.Semaphore(AT_ONCE)

        async def delete(name: str, generation: str) -> None:
            async with gate:
                target = f"{place}/o/{quote(name, safe='')}?generation={generation}"
                try:
                    await self._call("DELETE", target, f"delete {name} in {question.url}")
                except NotFound:
                    return

        async for objects in self._objects(question):
            try:
                async with asyncio.TaskGroup() as group:
                    for one in objects:
                        group.create_task(delete(str(one["name"]), str(one["generation"])))
            except* PortError as failures:
                raise failures.exceptions[0] from None
            if self._clock() - began > EMPTY_SECONDS:
                return False
        if remove:
            try:
                await self._call("DELETE", place, f"delete bucket {question.name}")
            except NotFound:
                return True
        return True

    async def _facts(self, question: BucketQuestion) -> BucketFacts:
        place = f"/{quote(question.name, safe='')}"
        try:
            resource = await self._call("GET", place, f"read bucket {question.name}")
        except NotFound:
            return BucketFacts(there=False)
        try:
            version = "?optionsRequestedPolicyVersion=3"
            policy = await self._call("GET", f"{place}/iam{version}", f"read the policy of {question.name}")
        except Forbidden:
            policy = None
        marker = await self._marker(question)
        empty = marker is None and not [one async for page in self._objects(question, most=1) for one in page]
        return BucketFacts(there=True, resource=resource, policy=policy, marker=marker, empty=empty)

    async def _marker(self, question: BucketQuestion) -> str | None:
        """Whose history the store says it is; None if there is no store."""
        name = quote(f"{question.prefix}{_MARKER}", safe="")
        place = f"/{quote(question.name, safe='')}/o/{name}?alt=media"
        try:
            found = (await self._call("GET", place, f"read {question.url}/{_MARKER}")).get("history")
        except NotFound:
            return None
        return found if isinstance(found, str) else ""

    async def _objects(self, question: BucketQuestion, *, most: int = 1000) -> AsyncIterator[list[Mapping[str, Any]]]:
        """Objects below the prefix, by pages; with a lower `most` only the first page."""
        place = f"/{quote(question.name, safe='')}/o?prefix={quote(question.prefix, safe='')}&maxResults={most}"
        token = ""
        while True:
            page = await self._call("GET", f"{place}{token}", f"list {question.url}")
            yield list(page.get("items") or ())
            if most < 1000 or not page.get("nextPageToken"):
                return
            token = f"&pageToken={quote(str(page['nextPageToken']), safe='')}"

    async def _call(self, method: str, place: str, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """One call. Raises `PortError`."""
        headers = {"Content-Type": "application/json"}
        try:
            if (authorization := await self._authorization.header()) is not None:
                headers["Authorization"] = authorization
            async with self._session.request(
                method,
                URL(f"{self._base}{place}", encoded=True),
                data=None if body is None else json.dumps(body).encode(),
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=CALL_SECONDS),
            ) as response:
                received = b""
                while len(received) <= _LONGEST_ANSWER and (data := await response.content.read(_LONGEST_ANSWER)):
                    received += data
                answer = _Answer(response.status, received)
        except BlobError as error:
            raise TryLater(f"{what}: {error}") from None
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise TryLater(f"{what}: {type(error).__name__}") from None
        if answer.status in (HTTPStatus.OK, HTTPStatus.NO_CONTENT):
            return answer.content
        raise answer.failure(what)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes

    @property
    def content(self) -> dict[str, Any]:
        """The answer as an object; what is none is an empty one."""
        try:
            found = json.loads(self.body) if self.body else {}
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def failure(self, what: str) -> PortError:
        """The error for an answer that is not a success."""
        error = self.content.get("error")
        said = str(error.get("message", ""))[:200] if isinstance(error, dict) else ""
        message = f"{what}: {self.status} {said}".rstrip()
        match self.status:
            case HTTPStatus.NOT_FOUND:
                return NotFound(message)
            case HTTPStatus.CONFLICT | HTTPStatus.PRECONDITION_FAILED:
                return Conflict(message)
            case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
                return Forbidden(message)
            case status if status in (408, 429) or status >= 500:
                return TryLater(message)
            case _:
                return Invalid(message)
