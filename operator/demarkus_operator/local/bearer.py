"""The bearer with which the person at this machine uses the gateway.

The gateway has no sign-in door of its own. Whoever holds its signing key may say who somebody is, and locally that is
the runner: it signs a token as the gateway would after a sign-in. Pure: key and clock come in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

from demarkus_operator.plan import secret_data
from demarkus_operator.plan.objects import Manifest

LIFETIME = timedelta(hours=12)
RENEWAL = timedelta(hours=6)
"""A bearer is replaced at half its life, so that the file never holds one that ends soon."""

NOBODY = "you@localhost"
"""Whom the bearer names if neither the command line nor any World names an e-mail address."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The gateway's ES256 key: its identifier and PEM."""

    kid: str
    pem: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What a bearer says, and when it was signed."""

    email: str
    public_url: str
    kid: str
    at: datetime

    def stands_for(self, wanted: Signed) -> bool:
        """Whether it says what is wanted and is not due for renewal."""
        same = (self.email, self.public_url, self.kid) == (wanted.email, wanted.public_url, wanted.kid)
        return same and wanted.at - self.at < RENEWAL


def signing_key(broker_keys: Manifest) -> SigningKey:
    """The key of the Secret `<universe>-broker-keys` that signs bearers. Raises Refusal if that can't be told."""
    kid = secret_data.signing_keys(broker_keys)["broker"]
    return SigningKey(kid, secret_data.field(broker_keys, f"broker-{kid}.pem"))


def first_writer(worlds: Iterable[Manifest]) -> str | None:
    """The first e-mail address among the writers of these Worlds, else among their readers, else None."""
    access: list[Mapping[str, Any]] = [world["spec"].get("access") or {} for world in worlds]
    for role in ("writers", "readers"):
        for one in access:
            for entry in one.get(role) or ():
                for email in entry.get("emails") or ():
                    return str(email)
    return None


def sign(*, email: str, public_url: str, key: SigningKey, now: datetime) -> str:
    """A bearer for the gateway at `public_url` that names this person, for 12 hours."""
    issued = int(now.timestamp())
    claims = {
        "iss": public_url,
        "aud": f"{public_url}/mcp",
        # Opaque as an identity provider's, and the same at every start: grants and audit records derive from it.
        "sub": f"local-{hashlib.sha256(email.lower().encode()).hexdigest()[:32]}",
        "email": email,
        "email_verified": True,
        "groups": [],
        "hd": email.rpartition("@")[2],
        "iat": issued,
        "exp": issued + int(LIFETIME.total_seconds()),
    }
    header = {"alg": "ES256", "kid": key.kid, "typ": "JWT"}
    return jwt.encode(header, claims, ECKey.import_key(key.pem.decode()), algorithms=["ES256"])
