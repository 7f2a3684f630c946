"""A document's history, checked from outside: the server is taken at its word in nothing that can be computed.

Every retained version is fetched, its stored bytes are rebuilt (Mark protocol 7.2) from metadata, body and the etag of
the version before, and their hash is compared with its etag. So a version that was changed, or one that is not the
successor of the one before it, does not fit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from mark_protocol.client.client import ClientError, MarkClient
from mark_protocol.client.walk import Refused
from mark_protocol.listings import ListingError, parse_versions
from mark_protocol.rebuild import publisher_part, rebuilt
from mark_protocol.response import Response
from mark_protocol.status import Status
from mark_protocol.versions import content_hash

AT_ONCE = 8
"""Versions that are asked for at once: below the 10 streams that a server allows."""


@dataclass(slots=True)
class History:
    """What was found: `findings` are sentences about what does not fit.

    `unproven` are versions whose bytes can't be rebuilt, since nobody says what was before them: the first one that is
    left of a pruned history.
    """

    path: str
    versions: list[int] = field(default_factory=list)
    etag: str = ""
    findings: list[str] = field(default_factory=list)
    unproven: list[int] = field(default_factory=list)


async def verify(client: MarkClient, path: str, *, looked_at: Callable[[], None] = lambda: None) -> History:
    """Check all retained versions of a document; `looked_at` is called after each. Raises Refused, ClientError."""
    told = await client.versions(path)
    if told.status != Status.OK:
        raise Refused(f"VERSIONS {path}", told)
    try:
        numbers = sorted(line.number for line in parse_versions(told.body))
    except ListingError as error:
        raise ClientError(f"VERSIONS {path}: {error}") from error
    found = History(path, numbers)
    _check_listing(found, told)
    previous = told.metadata.get("predecessor-hash", "").removeprefix("sha256-") or None
    for first in range(0, len(numbers), AT_ONCE):
        some = numbers[first : first + AT_ONCE]
        answers = await asyncio.gather(*(client.fetch(f"{path}/v{number}") for number in some))
        for number, answer in zip(some, answers, strict=True):
            previous = _check(found, number, previous, answer)
            looked_at()
    found.etag = previous or ""
    return found


def _check_listing(found: History, told: Response) -> None:
    if told.metadata.get("chain-valid") != "true":
        found.findings.append("the server says that the chain of its versions is broken")
    numbers = found.versions
    if not numbers or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        found.findings.append("the list of versions is empty or has holes")
    counts = (told.metadata.get("total"), told.metadata.get("current"))
    if counts != (str(len(numbers)), str(numbers[-1] if numbers else 0)):
        found.findings.append("the list of versions does not fit total and current")


def _check(found: History, number: int, previous: str | None, answer: Response) -> str | None:
    """The etag of this version, the link that the next one has to have; None where there is none."""

    def say(finding: str) -> None:
        found.findings.append(f"v{number}: {finding}")

    if answer.status != Status.OK:
        say(f"it is listed and can't be fetched: {answer.status}: {answer.message}")
        return None
    etag = answer.metadata.get("etag")
    if answer.metadata.get("version") != str(number):
        say(f"the server says it is version {answer.metadata.get('version')}")
    if answer.metadata.get("content-hash") != content_hash(answer.body):
        say("its body is not that of its content-hash")
    if etag is None:
        say("the server tells no etag to compare with")
    elif number > 1 and previous is None:
        found.unproven.append(number)
    elif rebuilt(etag, number, previous if number > 1 else None, publisher_part(answer.metadata), answer.body) is None:
        say("body, metadata and the version before do not make up its etag")
    return etag
