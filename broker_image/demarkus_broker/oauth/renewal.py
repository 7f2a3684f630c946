"""Who a login is about, as the provider sees it now: asked anew when that was long ago (`identity.revalidate`).

What was found is a fact beside the login, `logins/<login>/check-<n>`, so all replicas go on from the newest. The
provider's own refresh token may change with each use, so of several that ask at once only one asks, and where
another replica was first its result is taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from demarkus_broker.oauth.callback import login_facts
from demarkus_broker.oauth.errors import Code, OAuthError
from demarkus_broker.oauth.office import Office
from demarkus_broker.oauth.provider import ProviderError, RefusedError
from demarkus_broker.oauth.seals import Purpose
from demarkus_broker.state.logins import Login


class Renewal:
    """Asks the provider anew for the people of an office."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._under_way: dict[str, asyncio.Lock] = {}

    async def identity(self, login: Login) -> Mapping[str, Any]:
        """The claims of a login's person, not older than they may be.

        Raises OAuthError: `invalid_grant` if the provider has let go of the person (the login is ended then), and
        `temporarily_unavailable` if it does not answer, which leaves the login as it is.
        """
        name = login.token.login
        lock = self._under_way.setdefault(name, asyncio.Lock())
        try:
            async with lock:
                return await self._identity(name, login.facts)
        finally:
            if not lock.locked():
                self._under_way.pop(name, None)

    async def _identity(self, name: str, began: Mapping[str, Any]) -> Mapping[str, Any]:
        office = self._office
        number, newest = await office.state.logins.newest_check(name)
        newest = newest or began
        identity: Mapping[str, Any] = newest["identity"]
        sign_in = office.settings().identity
        opened = office.opened(newest.get("provider"), Purpose.PROVIDER_TOKEN)
        if sign_in is None or "provider" not in newest or office.now() - newest["checked"] < sign_in.revalidate:
            return identity
        if opened is None:
            raise OAuthError(Code.INVALID_GRANT, "the login can't be renewed any more; sign in anew")
        try:
            renewed = await office.provider().renew(opened["token"], subject=identity["sub"])
        except RefusedError:
            later, by_another = await office.state.logins.newest_check(name)
            if by_another is not None and later > number:
                return by_another["identity"]  # type: ignore[no-any-return]
            await office.state.logins.end(name, why="the provider has let go")
            raise OAuthError(Code.INVALID_GRANT, "the sign-in provider does not stand by this login any more") from None
        except ProviderError as error:
            office.note("provider", "unavailable", reason=str(error))
            raise OAuthError(
                Code.TEMPORARILY_UNAVAILABLE, "the sign-in provider does not answer; the login goes on, try again"
            ) from None
        facts = login_facts(office, renewed)
        await office.state.logins.tell_check(name, number + 1, facts)
        return facts["identity"]  # type: ignore[no-any-return]
