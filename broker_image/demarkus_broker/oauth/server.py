"""The authorization server: settings and keys in force, the state, the provider, the clients that are known."""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from demarkus_base.blobs.port import Blobs
from demarkus_broker.identity import Person, admits, person_of
from demarkus_broker.keys import Keys
from demarkus_broker.metrics import Metrics
from demarkus_broker.oauth import clients, seals
from demarkus_broker.oauth.clients import Client
from demarkus_broker.oauth.documents import Documents
from demarkus_broker.oauth.errors import Code, OAuthError
from demarkus_broker.oauth.provider import Provider
from demarkus_broker.settings import BrokerSettings
from demarkus_broker.state.codes import Codes
from demarkus_broker.state.devices import Devices
from demarkus_broker.state.facts import Facts
from demarkus_broker.state.logins import Logins
from demarkus_broker.state.registrations import Registrations
from demarkus_broker.state.sweep import MOST, Population

log = logging.getLogger(__name__)


class State:
    """What outlives the process, over one store."""

    def __init__(self, blobs: Blobs, *, most: Mapping[str, int] = MOST) -> None:
        """`most`: how many codes, devices, logins and registrations there may be."""
        self.facts = Facts(blobs)
        self.codes = Codes(self.facts)
        self.devices = Devices(self.facts)
        self.logins = Logins(self.facts)
        self.registrations = Registrations(self.facts)
        self.population = Population(Counter(), most)

    def take_room(self, kind: str) -> None:
        """Count one more of a kind. Raises OAuthError if there are too many."""
        if not self.population.has_room(kind):
            raise OAuthError(Code.TEMPORARILY_UNAVAILABLE, f"there are too many {kind} at present; try again later")
        self.population.counts[kind] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationServer:
    """What the endpoints share. `now` is in seconds since 1970; `durable`: there is a place for logins."""

    settings: Callable[[], BrokerSettings]
    keys: Callable[[], Keys]
    state: State
    durable: bool
    provider: Callable[[], Provider]
    documents: Documents
    metrics: Metrics
    now: Callable[[], float] = time.time
    entropy: Callable[[int], bytes] = secrets.token_bytes
    log: logging.Logger = field(default=log)

    @property
    def is_open(self) -> bool:
        """Whether anybody can sign in: there is a provider, and a place for logins."""
        return self.durable and self.settings().identity is not None

    @property
    def issuer(self) -> str:
        """The issuer identifier of this authorization server."""
        return self.settings().public_url

    async def client(self, client_id: str) -> Client:
        """The client of an identifier. Raises OAuthError; `invalid_client` makes clients register anew."""
        for web_client in self.settings().web_clients:
            if web_client.client_id == client_id:
                return clients.web_client(web_client)
        if "://" in client_id:
            return await self.documents.find(client_id)
        metadata = await self.state.registrations.find(client_id, now=self.now())
        if metadata is None:
            raise OAuthError(Code.INVALID_CLIENT, "client_id is not known here; register anew")
        return clients.registered_client(client_id, metadata)

    def person(self, identity: Mapping[str, Any]) -> Person:
        """The person of an identity that the provider told of."""
        return person_of({**identity, "iss": self.issuer})

    def label(self, identity: Mapping[str, Any]) -> str:
        """The label of a person."""
        return self.keys().label(self.issuer, identity["sub"])

    def admit(self, identity: Mapping[str, Any]) -> None:
        """Check that a person may come in. Raises OAuthError with words that tell nothing of the rules."""
        sign_in = self.settings().identity
        if sign_in is None or not admits(sign_in.rules, self.person(identity)):
            raise OAuthError(Code.ACCESS_DENIED, "this gateway does not admit that account")

    def random(self) -> str:
        """A text nobody can guess, of 64 hex."""
        return self.entropy(32).hex()

    def seal(self, value: Mapping[str, Any], purpose: seals.Purpose, *, life: int) -> str:
        """Seal something for `life` seconds."""
        return seals.seal(
            value,
            key=self.keys().cookie,
            purpose=purpose,
            expires=int(self.now()) + life,
            nonce=self.entropy(seals.NONCE),
        )

    def opened(self, sealed: str | None, purpose: seals.Purpose) -> dict[str, Any] | None:
        """What was sealed here or at another replica for this purpose."""
        return seals.opened(sealed or "", key=self.keys().cookie, purpose=purpose, now=self.now())

    def note(self, event: str, outcome: str, **fields: object) -> None:
        """Count and log how something ended. `fields` hold neither a credential nor what it takes to know a person."""
        self.metrics.sign_ins.labels(event=event, outcome=outcome).inc()
        self.log.info("sign-in", extra={"fields": {"event": event, "outcome": outcome, **fields}})


def client_label(client_id: str) -> str:
    """A client as logs know it: short, and nothing that somebody else chose."""
    return hashlib.sha256(client_id.encode()).hexdigest()[:12]
