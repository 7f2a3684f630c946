"""The operator's port: HTTPS, each call signed for its method, its path and this world.

    GET /checkpoint                     {history, incarnation, sequence, note}: the signed note of the newest entry
    GET /consistency?first=&second=     {first, second, proof}: hashes in base64, as in RFC 9162 2.1.4
    anything else                       404

503 `try later` is for the store out of reach and for a tree whose nodes are being made anew.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import ssl
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from demarkus_base.httpd import Answer, Request, Server
from demarkus_world.engine.engine import Engine, EngineError, Unavailable
from demarkus_world.management_calls import CallRefused, check_call
from demarkus_world.settings import TLS, HostPort
from mark_protocol.grants import KeySet

NOT_FOUND = Answer(HTTPStatus.NOT_FOUND, b"not found\n")
TRY_LATER = Answer(HTTPStatus.SERVICE_UNAVAILABLE, b"try later\n", headers={"Retry-After": "5"})
UNAUTHORIZED = Answer(HTTPStatus.UNAUTHORIZED, b"unauthorized\n", headers={"WWW-Authenticate": "Bearer"})

_SIZE = re.compile("[0-9]{1,16}")

logger = logging.getLogger(__name__)


class ManagementServer(Server):
    """The listener. `keys` is asked for anew with every call; `clock` gives seconds since 1970."""

    def __init__(
        self,
        where: HostPort,
        *,
        tls: TLS,
        keys: Callable[[], KeySet],
        engine: Engine,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._pair = tls
        self._keys = keys
        self._engine = engine
        self._clock = clock
        self.reload()
        super().__init__(where.host, where.port, self._tell, tls=self._context)

    def reload(self) -> None:
        """Take the certificate for new connections from its files, after they changed. Raises OSError, ssl.SSLError."""
        self._context.load_cert_chain(self._pair.certificate, self._pair.key)

    async def _tell(self, request: Request) -> Answer:
        handler = {"/checkpoint": self._checkpoint, "/consistency": self._consistency}.get(request.path)
        if handler is None or request.method != "GET":
            return NOT_FOUND
        answer, problem = UNAUTHORIZED, ""
        try:
            check_call(
                request.headers.get("authorization", ""),
                self._keys(),
                method=request.method,
                path=request.path,
                history=self._engine.identity.history,
                now=self._clock(),
            )
            answer = await handler(request)
        except CallRefused as error:
            problem = str(error)
        except (Unavailable, LookupError) as error:
            answer, problem = TRY_LATER, str(error)
        except EngineError as error:
            answer, problem = Answer(HTTPStatus.INTERNAL_SERVER_ERROR, f"{error}\n".encode()), str(error)
        fields = {"path": request.path, "status": answer.status.value}
        logger.info("management call", extra={"fields": fields | ({"problem": problem} if problem else {})})
        return answer

    async def _checkpoint(self, request: Request) -> Answer:
        note = await self._engine.note()
        identity = self._engine.identity
        return _json(
            {
                "history": identity.history,
                "incarnation": identity.incarnation,
                "sequence": int(note.split("\n", 2)[1]),
                "note": note,
            }
        )

    async def _consistency(self, request: Request) -> Answer:
        sizes = dict(parse_qsl(request.query, max_num_fields=8))
        if sizes.keys() != {"first", "second"} or not all(map(_SIZE.fullmatch, sizes.values())):
            return Answer(HTTPStatus.BAD_REQUEST, b"expected ?first=<entries>&second=<entries>\n")
        first, second = int(sizes["first"]), int(sizes["second"])
        # A note of another writer may be newer than what was read here so far.
        await self._engine.view(exact=True)
        try:
            proof = self._engine.consistency(first, second)
        except ValueError as error:
            return Answer(HTTPStatus.BAD_REQUEST, f"{error}\n".encode())
        return _json({"first": first, "second": second, "proof": [base64.b64encode(part).decode() for part in proof]})


def _json(value: dict[str, Any]) -> Answer:
    return Answer(HTTPStatus.OK, json.dumps(value).encode() + b"\n", "application/json")
