"""What a tool is made of: one row of the table, the call it gets, the outcome it gives.

Nothing here knows the SDK or a socket. A handler gets arguments that are valid, addresses whose worlds exist for the
caller, and a way to ask those worlds; it gives an `Outcome` or raises `Refusal`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict

from demarkus_broker.identity import Person
from demarkus_broker.mcp.tools.address import Address
from demarkus_broker.worlds.directory import Entry
from demarkus_broker.worlds.errors import AnswerLost, GrantRefused, Unavailable
from mark_protocol.request import Request
from mark_protocol.response import Response


def _encodable(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("has half of a surrogate pair; expected text that UTF-8 can encode") from None
    return text


Text = Annotated[str, AfterValidator(_encodable)]
"""A text argument. JSON can carry what is no text; a world can't."""


class Arguments(BaseModel):
    """The arguments of a tool, and by that its input schema. Strict: no guessing of types, nothing unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


A = TypeVar("A", bound=Arguments)


class Cost(StrEnum):
    """What a call may cost, and so how long it may take."""

    LOCAL = "local"  # nothing is dialled
    READ = "read"  # a few reads of one world
    FAN_OUT = "fan-out"  # reads of many worlds
    WRITE = "write"  # a write, and reads to settle what became of it

    @property
    def deadline(self) -> float:
        """Seconds after which the call is given up."""
        return {Cost.LOCAL: 5.0, Cost.READ: 20.0, Cost.FAN_OUT: 40.0, Cost.WRITE: 40.0}[self]


class Kind(StrEnum):
    """Why a call ended without an answer of a world. Part of the structured result: agents branch on it."""

    ARGUMENT = "bad-argument"  # the caller must change the call
    NO_SUCH_WORLD = "no-such-world"  # not there, or not for this caller: the two look alike
    NOT_PERMITTED = "not-permitted"  # the caller's rights do not cover it
    TRY_LATER = "try-later"  # nothing was done, the same call may be made again
    OUTCOME_UNKNOWN = "outcome-unknown"  # a write may or may not have been made: read before writing
    BUG = "internal-error"


class Refusal(Exception):
    """A call that ends here. `message` says what is wrong, `help` what to do next."""

    def __init__(self, kind: Kind, message: str, help: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.help = help


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a tool answers.

    Attributes:
        status: the world's own word (Mark protocol 5), or one of the gateway's (`unchanged`).
        keys: metadata to show, in this order.
        body: text, as it came.
        help: what to do next, if the caller can't go on as it is.
        data: further members of the structured result.
    """

    status: str
    keys: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    help: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


class Worlds(Protocol):
    """The worlds as a tool reaches them."""

    def find(self, name: str, person: Person) -> Entry | None:
        """The world of this name as the person sees it, None if it does not exist for them."""

    def readable(self, person: Person) -> list[Entry]:
        """Every world that exists for the person."""

    async def ask(self, person: Person, entry: Entry, request: Request) -> Response:
        """Send a request on behalf of the person. Raises ValueError for one that can't be sent, else WorldError."""


@dataclass(frozen=True, slots=True)
class Target:
    """A world-bearing argument after the gate: its world exists for the caller."""

    address: Address
    entry: Entry

    @property
    def path(self) -> str:
        """The canonical path in the world."""
        return self.address.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[A]):
    """One call of a tool: who, with which program, with what, about which documents."""

    person: Person
    agent: str
    arguments: A
    targets: Mapping[str, Target]
    worlds: Worlds

    async def ask(self, target: Target, request: Request) -> Response:
        """Ask a target's world on behalf of the caller. Raises Refusal if it gives no answer."""
        return await ask(self.worlds, self.person, target, request)


async def ask(worlds: Worlds, person: Person, target: Target, request: Request) -> Response:
    """Ask a target's world on behalf of a person. Raises Refusal if it gives no answer."""
    name = target.entry.name
    try:
        return await worlds.ask(person, target.entry, request)
    except ValueError as error:
        raise Refusal(Kind.ARGUMENT, f"this can't be sent to a world: {error}") from None
    except Unavailable as error:
        raise Refusal(
            Kind.TRY_LATER,
            f"world {name!r} does not answer at present; nothing was done",
            f"Make the same call again in {max(1, round(error.after))} s or later.",
        ) from error
    except GrantRefused as error:
        raise Refusal(
            Kind.TRY_LATER,
            f"world {name!r} does not take this gateway's credential at present; nothing was done",
            "Your own sign-in is fine, do not repeat it; make the same call again in a minute.",
        ) from error
    except AnswerLost as error:
        raise Refusal(
            Kind.OUTCOME_UNKNOWN,
            f"the answer of world {name!r} was lost: the write may or may not have been made",
            "Fetch the document and look before you write again.",
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[A]):
    """One row of the table.

    Attributes:
        name, title, description: as agents see them.
        arguments: the model behind the input schema.
        world_arguments: the arguments that name a world; the gate resolves them before the handler runs.
        cost: cost class.
        operation: what the caller must be allowed to do at every world-bearing argument. `read` asks only for the world
            as a whole, because which paths may be read is the world's to decide.
        anchored: whether an address may name a section, `#<anchor>`.
        destructive, idempotent: hints for the agent's host.
        handler: does the work.
    """

    name: str
    title: str
    description: str
    arguments: type[A]
    world_arguments: tuple[str, ...]
    cost: Cost
    operation: Callable[[A], str]
    anchored: bool = False
    destructive: bool = False
    idempotent: bool = True
    handler: Callable[[Call[A]], Awaitable[Outcome]]
