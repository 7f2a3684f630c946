"""Who a login is about, as the provider sees it now: asked anew when that was long ago (`identity.revalidate`).

What was found is a fact beside the login, `logins/<login>/check-<n>`, so all replicas go on from the newest. Providers
change their refresh token with each use, and some end everything when an old one comes again: so of all processes that
need a check, one claims it and asks, and the others wait for what it finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from demarkus_broker.oauth.callback import login_facts
from demarkus_broker.oauth.errors import Code, OAuthError
from demarkus_broker.oauth.provider import ProviderError, RefusedError
from demarkus_broker.oauth.seals import Purpose
from demarkus_broker.oauth.server import AuthorizationServer
from demarkus_broker.state.logins import Login

PATIENCE = 15.0
"""Seconds to wait for a check that somebody else makes."""
LOOK_AGAIN = 0.1
"""Seconds between two looks whether it is there."""


async def identity(server: AuthorizationServer, login: Login) -> Mapping[str, Any]:
    """The claims of a login's person, not older than they may be.

    Raises OAuthError: `invalid_grant` if the provider has let go of the person (the login is ended then), and
    `temporarily_unavailable` if it does not answer, which leaves the login as it is.
    """
    name = login.token.login
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        number, newest = await server.state.logins.newest_check(name)
        facts = newest or login.facts
        if not _is_due(server, facts):
            return _identity(facts)
        if await server.state.logins.claim_check(name, number + 1, now=server.now()):
            return await _checked(server, name, number + 1, facts)
        if await server.state.logins.ended(name):
            raise OAuthError(Code.INVALID_GRANT, "the login has ended; sign in anew")
        if asyncio.get_running_loop().time() > deadline:
            raise _later()
        await asyncio.sleep(LOOK_AGAIN)


def _is_due(server: AuthorizationServer, facts: Mapping[str, Any]) -> bool:
    sign_in = server.settings().identity
    return sign_in is not None and "provider" in facts and server.now() - facts["checked"] >= sign_in.revalidate


async def _checked(server: AuthorizationServer, name: str, number: int, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask the provider, and tell what it says."""
    claimed, logins = server.now(), server.state.logins
    opened = server.opened(facts["provider"], Purpose.PROVIDER_TOKEN)
    if opened is None:
        await logins.end(name, why="the key of its seal is gone")
        raise OAuthError(Code.INVALID_GRANT, "the login can't be renewed any more; sign in anew")
    try:
        renewed = await server.provider().renew(opened["token"], subject=_identity(facts)["sub"])
    except RefusedError:
        await logins.end(name, why="the provider has let go")
        raise OAuthError(Code.INVALID_GRANT, "the sign-in provider does not stand by this login any more") from None
    except ProviderError as error:
        await logins.drop_claim(name, number, claimed=claimed)
        server.note("provider", "unavailable", reason=str(error))
        raise _later() from None
    found = login_facts(server, renewed)
    await logins.tell_check(name, number, found)
    return _identity(found)


def _identity(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = facts["identity"]
    return found


def _later() -> OAuthError:
    return OAuthError(
        Code.TEMPORARILY_UNAVAILABLE, "the sign-in provider does not answer; the login goes on, try again"
    )
