"""Directories page by page, and all documents below one, as far as LIST shows them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mark_protocol.client.client import ClientError, MarkClient
from mark_protocol.listings import Child, ListingError, parse_list
from mark_protocol.metadata import CURSOR, INCLUDE_ARCHIVED
from mark_protocol.response import Response
from mark_protocol.status import Status


class Refused(ClientError):
    """A server refused a request that a longer work needs; `response` is what it said."""

    def __init__(self, request: str, response: Response) -> None:
        super().__init__(f"{request}: {response.status}: {response.message}")
        self.response = response


async def children(client: MarkClient, directory: str, *, archived: bool = False) -> AsyncIterator[Child]:
    """What is in a directory, in order; `archived` documents too if wanted.

    Raises Refused, and ClientError for pages that are no listing or do not go forward.
    """
    shown = directory if directory.endswith("/") else f"{directory}/"
    metadata = {INCLUDE_ARCHIVED: "true"} if archived else {}
    last = b""
    while True:
        response = await client.list(shown, metadata=metadata)
        if response.status != Status.OK:
            raise Refused(f"LIST {shown}", response)
        try:
            page = parse_list(response.body)
        except ListingError as error:
            raise ClientError(f"LIST {shown}: {error}") from error
        for child in page:
            name = child.name.encode(errors="surrogateescape")
            if name <= last:
                raise ClientError(f"LIST {shown}: its pages are not in order")
            last = name
            yield child
        cursor = response.metadata.get("next-cursor")
        if not cursor or not page:
            return
        metadata = {**metadata, CURSOR: cursor}


async def documents(client: MarkClient, directory: str, *, archived: bool = False) -> AsyncIterator[str]:
    """The paths of all documents below a directory, depth first. Raises what `children` raises."""
    directories = [directory.rstrip("/")]
    while directories:
        here = directories.pop()
        below: list[str] = []
        async for child in children(client, here, archived=archived):
            path = f"{here}/{child.name}"
            if child.is_directory:
                below.append(path)
            else:
                yield path
        directories.extend(reversed(below))
