"""One request on its way through a verb."""

from __future__ import annotations

from dataclasses import dataclass

from demarkus_world.authority import AUTHENTICATION_REQUIRED, Credential, Denial, Rules
from demarkus_world.engine.engine import Engine
from demarkus_world.proposals import is_proposal, made_by, target_of
from mark_protocol.request import Request
from mark_protocol.response import Response
from mark_protocol.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a verb acts on.

    Attributes:
        request: as parsed; its path is the raw one.
        path: the canonical path (Mark protocol 2.4).
        rules: the rule set of the moment the request arrived; no other one decides about it.
        credential: the valid credential it carries, if any.
        engine: the store.
        timeout: seconds that the verb may take.
        compatible: whether the world behaves as upstream servers do (`history: compatible`).
        ignore_retention: whether a key `retention` whose sender may not prune is stored and not acted on.
    """

    request: Request
    path: str
    rules: Rules
    credential: Credential | None
    engine: Engine
    timeout: float
    compatible: bool
    ignore_retention: bool = False

    def key(self, name: str) -> str:
        """A value of the request's metadata, empty if absent."""
        return self.request.metadata.get(name, "")

    def denial(self, path: str) -> Denial | None:
        """Why the caller may not read the path, or None.

        A proposal is for holders of a credential, in every read mode: its author, and who may read what it is about.
        """
        if not is_proposal(path):
            return self.rules.read(self.credential, path)
        if self.credential is None:
            return AUTHENTICATION_REQUIRED
        head = self.engine.newest.head(path)
        if head is not None and made_by(head, self.credential):
            return None
        return self.rules.read(self.credential, (target_of(head) if head is not None else None) or path)

    def require_readable(self, path: str) -> None:
        """Raises Refused if the caller may not read the path."""
        refuse(self.denial(path))

    def readable(self, path: str) -> bool:
        """Whether the caller may read the path; for filtering rows."""
        return self.denial(path) is None


class Refused(Exception):
    """The request ends here with this status and message; `fault` tells the log what went wrong on our side."""

    def __init__(self, status: Status, message: str, *, fault: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.fault = fault

    @property
    def response(self) -> Response:
        """What the caller gets."""
        return Response.error(self.status, self.message)


def refuse(denial: Denial | None) -> None:
    """Raises Refused if there is a denial."""
    if denial is not None:
        raise Refused(denial.status, denial.message)


def not_found(path: str) -> Refused:
    """There is nothing at this path, or nothing for this caller."""
    return Refused(Status.NOT_FOUND, f"{path} not found")
