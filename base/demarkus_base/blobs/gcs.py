"""Blobs in a Google Cloud Storage bucket, through the JSON API.

Every call is one HTTP request: who calls decides about trying again, because only the caller knows what a lost answer
means. `create` is a multipart upload with `ifGenerationMatch=0`; its CRC32C is sent and checked by the service, and
size and CRC32C of what is read are checked here. A mutation that ended in anything but a definite answer is ambiguous.

Why not a library: of those measured, one refuses names with a tab, sends no checksum and checks none; others retry
inside, or block.

Source: Cloud Storage JSON API, "Objects: insert, get, delete, list", "Request preconditions", "Hashes and ETags".
"""

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp
import google.auth
import google.auth.transport.requests
import google_crc32c
from yarl import URL

from demarkus_base.blobs.port import (
    OBJECT_LIMIT,
    BlobError,
    Exists,
    Integrity,
    NotFound,
    Permanent,
    Throttled,
    Unavailable,
    check_key,
    check_object,
)

SERVICE = "https://storage.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
CONNECTIONS = 64
LIST_PAGE = 1000
TIMEOUT = 10.0
_ERROR_LIMIT = 8192
_PRECONDITION = 412


class Authorization(Protocol):
    """Gives the value of the `Authorization` header; raises BlobError when there is none to be had."""

    async def header(self) -> str | None: ...


class Anonymous:
    """No credential: for a stand-in on loopback."""

    async def header(self) -> str | None:
        """Nothing to send."""
        return None


class ApplicationDefault:
    """The surroundings' own identity: workload identity, metadata server, or the file a developer named.

    google-auth blocks, so it runs in a thread; one refresh at a time, in good time before the token ends.
    """

    def __init__(self, *, scope: str = SCOPE) -> None:
        self._scope = scope
        self._credentials: Any = None
        self._guard = asyncio.Lock()

    async def header(self) -> str | None:
        """`Bearer` and a token that is good for some minutes yet."""
        async with self._guard:
            if self._credentials is None or not self._credentials.valid:
                try:
                    await asyncio.to_thread(self._refresh)
                except google.auth.exceptions.TransportError as error:
                    raise Unavailable(f"no access token for the bucket yet: {type(error).__name__}") from None
                except google.auth.exceptions.GoogleAuthError as error:
                    raise Permanent(
                        f"no access token for the bucket ({type(error).__name__}): bind the ServiceAccount to an "
                        "identity that may use it"
                    ) from None
            return f"Bearer {self._credentials.token}"

    def _refresh(self) -> None:
        if self._credentials is None:
            self._credentials, _ = google.auth.default(scopes=[self._scope])
        self._credentials.refresh(google.auth.transport.requests.Request())


class GcsBlobs:
    """A store in a bucket, or below a prefix of one. Any number of processes may write."""

    exclusive = False

    def __init__(
        self,
        *,
        session: aiohttp.ClientSession,
        bucket: str,
        prefix: str,
        service: str,
        authorization: Authorization,
    ) -> None:
        self._session = session
        self._prefix = prefix
        self._authorization = authorization
        self._where = f"gs://{bucket}/{prefix}"
        self._objects = f"{service}/storage/v1/b/{quote(bucket, safe='')}/o"
        self._uploads = f"{service}/upload/storage/v1/b/{quote(bucket, safe='')}/o"

    @classmethod
    def open(
        cls,
        url: str,
        *,
        authorization: Authorization | None = None,
        service: str = SERVICE,
        timeout: float = TIMEOUT,
    ) -> "GcsBlobs":
        """The store at `gs://bucket` or `gs://bucket/prefix`; one call takes at most `timeout` seconds.

        Must be called in a running loop. Raises ValueError for another kind of address.
        """
        scheme, _, rest = url.partition("://")
        bucket, _, prefix = rest.partition("/")
        if scheme != "gs" or not bucket:
            raise ValueError(f"a bucket is named gs://bucket or gs://bucket/prefix, not {url!r}")
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS),
            timeout=aiohttp.ClientTimeout(total=timeout),
            auto_decompress=False,
            trust_env=False,
        )
        return cls(
            session=session,
            bucket=bucket,
            prefix=f"{prefix.strip('/')}/" if prefix.strip("/") else "",
            service=service.rstrip("/"),
            authorization=authorization or ApplicationDefault(),
        )

    async def get(self, key: str) -> bytes:
        """See `Blobs.get`."""
        check_key(key)
        url = f"{self._objects}/{quote(self._prefix + key, safe='')}?alt=media"
        headers, data = await self._call("GET", url, f"reading {key!r}")
        expected = headers.get("X-Goog-Stored-Content-Length", str(len(data)))
        if expected != str(len(data)):
            raise Integrity(f"{self._where}{key} has {len(data)} bytes where the bucket says {expected}")
        if (claimed := _claimed_crc32c(headers)) != _crc32c(data):
            raise Integrity(f"{self._where}{key} arrived with another CRC32C than the bucket says ({claimed})")
        return data

    async def create(self, key: str, data: bytes) -> None:
        """See `Blobs.create`."""
        check_object(key, data)
        boundary = secrets.token_hex(16)
        metadata = {"name": self._prefix + key, "crc32c": _crc32c(data)}
        body = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(metadata)}\r\n"
            f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
        ).encode() + b"%b\r\n--%b--\r\n" % (data, boundary.encode())
        url = f"{self._uploads}?uploadType=multipart&ifGenerationMatch=0&fields=crc32c"
        _, answer = await self._call(
            "POST",
            url,
            f"creating {key!r}",
            body=body,
            content_type=f"multipart/related; boundary={boundary}",
            mutates=True,
        )
        if _field(answer, "crc32c") != metadata["crc32c"]:
            raise Integrity(f"{self._where}{key} was stored with another CRC32C than was sent", ambiguous=True)

    async def delete(self, key: str) -> None:
        """See `Blobs.delete`."""
        check_key(key)
        url = f"{self._objects}/{quote(self._prefix + key, safe='')}"
        await self._call("DELETE", url, f"deleting {key!r}", mutates=True)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        """See `Blobs.list`; reads page by page while the caller goes on."""
        parameters = f"prefix={quote(self._prefix + prefix, safe='')}&maxResults={LIST_PAGE}"
        parameters += "&fields=items(name),nextPageToken"
        if after:
            parameters += f"&startOffset={quote(self._prefix + after, safe='')}"
        token = ""
        while True:
            page = f"&pageToken={quote(token, safe='')}" if token else ""
            _, answer = await self._call("GET", f"{self._objects}?{parameters}{page}", f"listing {prefix!r}")
            for item in _field(answer, "items") or ():
                key = str(item["name"]).removeprefix(self._prefix)
                if key.encode() > after.encode():
                    yield key
            token = _field(answer, "nextPageToken") or ""
            if not token:
                return

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def _call(
        self, method: str, url: str, what: str, *, body: bytes = b"", content_type: str = "", mutates: bool = False
    ) -> tuple[Any, bytes]:
        """One request: headers and body of a success; everything else as the port's errors."""
        headers = {"Accept-Encoding": "identity"}
        if content_type:
            headers["Content-Type"] = content_type
        if (authorization := await self._authorization.header()) is not None:
            headers["Authorization"] = authorization
        try:
            async with self._session.request(
                method, URL(url, encoded=True), data=body, headers=headers, allow_redirects=False
            ) as response:
                if response.status in (200, 204):
                    return response.headers, await _bounded(response)
                reason = _reason(await response.content.read(_ERROR_LIMIT))
                # Creating and listing name no object, so there 404 speaks of the bucket.
                names_object = method == "DELETE" or url.endswith("?alt=media")
                message = f"{what} in {self._where}: {reason}"
                raise _error(response.status, message, names_object=names_object, mutates=mutates)
        except TimeoutError:
            raise Unavailable(f"{what} in {self._where}: no answer in time", ambiguous=mutates) from None
        except aiohttp.ClientError as error:
            raise Unavailable(f"{what} in {self._where}: {type(error).__name__}", ambiguous=mutates) from None


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    if (response.content_length or 0) > 2 * OBJECT_LIMIT:
        raise Integrity(f"an answer of {response.content_length} bytes: no object of ours is that large")
    return await response.read()


def _error(status: int, message: str, *, names_object: bool, mutates: bool) -> BlobError:
    text = f"{message} (HTTP {status})"
    if status == 404 and names_object:
        return NotFound(text)
    if status == _PRECONDITION:
        return Exists(text)
    if status == 429:
        return Throttled(text, ambiguous=mutates)
    if status == 408 or status >= 500:
        return Unavailable(text, ambiguous=mutates)
    return Permanent(text)


def _crc32c(data: bytes) -> str:
    return base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()


def _claimed_crc32c(headers: Any) -> str | None:
    for value in headers.getall("X-Goog-Hash", ()):
        for part in value.split(","):
            name, _, digest = part.strip().partition("=")
            if name == "crc32c":
                return str(digest)
    return None


def _field(answer: bytes, name: str) -> Any:
    try:
        return json.loads(answer).get(name)
    except (ValueError, AttributeError):
        raise Unavailable("the bucket's answer is no JSON object") from None


def _reason(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["error"]["message"])[:200]
    except (ValueError, TypeError, KeyError):
        return "no reason given"
