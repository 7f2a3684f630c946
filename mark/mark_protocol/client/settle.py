"""What became of a write whose response was lost: looked up, never guessed (Mark protocol 1.4).

A write that expected version N made version N+1 or nothing. So it is found by looking at N+1, whose text and metadata
have to be what was sent: another writer may have made it.
"""

from __future__ import annotations

from mark_protocol.client.client import MarkClient
from mark_protocol.metadata import AUTH, EXPECTED_VERSION, MetadataError, publisher_metadata
from mark_protocol.request import Request, Verb
from mark_protocol.status import Status


async def settle(client: MarkClient, write: Request) -> bool | None:
    """Whether the server has done `write`: True, False, or None if nothing can tell (no expected version, no access).

    False says how it is now. A request that is still on its way may arrive later, but then its expectation holds it
    to the same version, or it is an ARCHIVE, which may be repeated.

    Raises:
        Unreachable: the server does not answer.
    """
    look = _Look(client, write)
    if write.verb is Verb.ARCHIVE:
        return await look.archived()
    if write.verb in (Verb.PUBLISH, Verb.APPEND) and write.body:
        return await look.has_version()
    return None


class _Look:
    """The reads that settle one write, with its own credential."""

    def __init__(self, client: MarkClient, write: Request) -> None:
        self._client = client
        self._write = write
        self._auth = {AUTH: write.metadata[AUTH]} if AUTH in write.metadata else {}

    async def archived(self) -> bool | None:
        found = await self._client.fetch(self._write.path, metadata=self._auth)
        return {Status.ARCHIVED.value: True, Status.OK.value: False}.get(found.status)

    async def has_version(self) -> bool | None:
        try:
            expected = int(self._write.metadata.get(EXPECTED_VERSION, ""))
            sent = publisher_metadata(self._write.metadata)
        except (ValueError, MetadataError):
            return None
        found = await self._client.fetch(f"{self._write.path}/v{expected + 1}", metadata=self._auth)
        if found.status == Status.NOT_FOUND:
            return False
        body = await self._whole_body(expected)
        if found.status != Status.OK or body is None:
            return None
        return found.body == body and all(found.metadata.get(key) == value for key, value in sent.items())

    async def _whole_body(self, expected: int) -> bytes | None:
        """What the new version has as its text; for an APPEND that begins with the text of the version before."""
        if self._write.verb is Verb.PUBLISH:
            return self._write.body
        base = await self._client.fetch(f"{self._write.path}/v{expected}", metadata=self._auth)
        if base.status != Status.OK:
            return None
        joint = b"\n" if base.body and not base.body.endswith(b"\n") else b""
        return base.body + joint + self._write.body
