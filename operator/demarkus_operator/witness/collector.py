"""Collects notes and proofs from Worlds, each about every ten minutes, and remembers the answers until then.

What it remembers is lost with the process: then everybody is asked again, which costs a call each.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any

import aiohttp
from cachetools import LRUCache
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from demarkus_operator.cluster.port import PortError
from demarkus_operator.plan.inquiry import Inquiry
from demarkus_operator.plan.objects import Ref
from demarkus_operator.plan.witness import Testimony
from demarkus_operator.processes.asked import Places
from demarkus_operator.witness.calls import authorization

EVERY = timedelta(minutes=9)
"""How old an answer may get. A little less than the time between two looks at everything."""
AGAIN = timedelta(seconds=30)
"""How soon a World that did not answer is asked again."""
SILENCE = timedelta(hours=1)
"""After which a World that does not answer has its history in doubt."""
SECONDS = 10.0
"""How long asking one World may take."""

MOST_WORLDS = 20_000
_LONGEST_ANSWER = 1 << 18


class NoAnswer(Exception):
    """A call that brought nothing to judge; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The last answer, and since when there has been none."""

    testimony: Testimony
    size: int
    silent_since: datetime | None = None


class Collector:
    """`Witness` over HTTPS. A World is asked when its answer is older than `every`, or `again` if it gave none."""

    def __init__(self, places: Places, *, every: timedelta = EVERY, again: timedelta = AGAIN) -> None:
        self._places = places
        self._every = every
        self._again = again
        self._known: LRUCache[tuple[Ref, str], _Known] = LRUCache(MOST_WORLDS)

    async def testimony(self, ref: Ref, inquiry: Inquiry) -> Testimony:
        """See `Witness.testimony`."""
        place = (ref, inquiry.history)
        known = self._known.get(place)
        if known is not None and self._serves(known, inquiry):
            return known.testimony
        try:
            async with asyncio.timeout(SECONDS):
                testimony, size = await self._ask(ref, inquiry)
        except (NoAnswer, PortError, TimeoutError, ValueError) as error:
            problem = "the World does not answer in time" if isinstance(error, TimeoutError) else str(error)
            since = (known and known.silent_since) or inquiry.now
            silent = inquiry.now - since >= SILENCE
            testimony = Testimony(time=inquiry.now, problem=problem, silent=silent)
            self._known[place] = _Known(testimony=testimony, size=0, silent_since=since)
        else:
            self._known[place] = _Known(testimony=testimony, size=size)
        return testimony

    def _serves(self, known: _Known, inquiry: Inquiry) -> bool:
        """Whether an answer still does for a question: it is young, and what it proves begins where it has to."""
        age = inquiry.now - known.testimony.time
        if known.silent_since is not None:
            return age < self._again
        return age < self._every and inquiry.size in (known.testimony.first, known.size)

    async def _ask(self, ref: Ref, inquiry: Inquiry) -> tuple[Testimony, int]:
        """The first answer of one of the World's processes, and the size it names. Raises NoAnswer."""
        addresses = [place.management for place in await self._places(ref) if place.management is not None]
        failure = NoAnswer("no process of the World has an address yet")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=inquiry.authority.decode("ascii"))
        key = load_pem_private_key(inquiry.key, password=None)
        assert isinstance(key, Ed25519PrivateKey)
        for address in addresses:
            try:
                async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS / 2)) as session:
                    return await _Caller(session, address, context, inquiry, key).testimony()
            except NoAnswer as error:
                failure = error
        raise failure


@dataclass(frozen=True, slots=True)
class _Caller:
    """Calls to one process."""

    session: aiohttp.ClientSession
    address: str
    context: ssl.SSLContext
    inquiry: Inquiry
    key: Ed25519PrivateKey

    async def testimony(self) -> tuple[Testimony, int]:
        answer = await self._get("/checkpoint")
        note, size = answer.get("note"), answer.get("sequence")
        if not isinstance(note, str) or type(size) is not int:
            raise NoAnswer(f"{self.address} sent no note")
        first = self.inquiry.size
        proof: tuple[bytes, ...] = ()
        if 0 < first < size:
            parts = (await self._get("/consistency", f"?first={first}&second={size}")).get("proof")
            try:
                proof = tuple(base64.b64decode(part, validate=True) for part in parts or ())
            except (binascii.Error, ValueError, TypeError):
                raise NoAnswer(f"{self.address} sent no proof") from None
        return Testimony(time=self.inquiry.now, note=note, first=first, proof=proof), size

    async def _get(self, path: str, query: str = "") -> dict[str, Any]:
        now = int(self.inquiry.now.timestamp())
        signature = authorization(self.key, method="GET", path=path, history=self.inquiry.history, now=now)
        try:
            async with self.session.get(
                f"https://{self.address}{path}{query}",
                headers={"Authorization": signature},
                ssl=self.context,
                server_hostname=self.inquiry.server_name,
                allow_redirects=False,
            ) as response:
                body = b""
                while len(body) <= _LONGEST_ANSWER and (data := await response.content.read(_LONGEST_ANSWER)):
                    body += data
        except aiohttp.ClientConnectorCertificateError:
            raise NoAnswer(f"{self.address} shows a certificate that the World's authority did not sign") from None
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise NoAnswer(
                f"{self.address} does not answer ({type(error).__name__}); does a NetworkPolicy hold the operator back?"
            ) from None
        if response.status != HTTPStatus.OK:
            raise NoAnswer(f"{self.address} answers {path} with {response.status}")
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise NoAnswer(f"{self.address} answers {path} with something else than JSON")
        return answer
