"""Who may sign in to a Universe: the company's OpenID Connect provider, and rules on what it says of a person."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from demarkus_operator.api.access import Person
from demarkus_operator.api.common import Model
from demarkus_operator.api.durations import SPAN, duration_rule
from demarkus_operator.api.names import SecretKey
from demarkus_operator.api.rules import Rule, whole

_HOST = r"(https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?|http://(localhost|127[.][0-9]+[.][0-9]+[.][0-9]+|\[::1\]))"
_ISSUER = rf"^{_HOST}(:[1-9][0-9]{{0,4}})?(/[^?# ]*)?$"
_is_issuer = whole(_ISSUER)
Scope = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[!#-\[\]-~]+$")]

_HELP = "is a whole number of s, m, h or d: '30m', '1h' or '1d'"


class Identity(Model):
    """The provider that signs people in, and whom of them the Universe admits."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="identity-issuer",
            field="issuer",
            expression=f"self.issuer.matches(r'{_ISSUER}')",
            message="issuer is the provider's https:// URL exactly as its tokens say it: https://accounts.example.com; "
            "http:// is for loopback addresses only",
            holds=lambda self, _: _is_issuer(self["issuer"]),
        ),
        duration_rule("identity-revalidate", "revalidate", SPAN, f"revalidate {_HELP}"),
        duration_rule("identity-max-login", "maxLogin", SPAN, f"maxLogin {_HELP}"),
    )

    issuer: Annotated[str, Field(min_length=1, max_length=500)]
    """The provider's issuer URL; its configuration is discovered there."""
    client_id: Annotated[str, Field(alias="clientID", min_length=1, max_length=253)]
    """The client that the provider knows the gateway by. Its redirect URI is `<publicURL>/auth/callback`."""
    client_secret_ref: SecretKey
    """The client's secret."""
    scopes: Annotated[list[Scope], Field(max_length=20)] | None = None
    """What is asked for besides `openid`. Default: `email`, `profile` and `offline_access`."""
    rules: Annotated[list[Person], Field(max_length=50)] | None = None
    """Whom the Universe admits; one rule that matches is enough. Absent or empty: everybody whom the provider signs
    in."""
    revalidate: Annotated[str, Field(min_length=1, max_length=8)] | None = None
    """How often the provider is asked anew what holds of a person. Default: `1h`."""
    max_login: Annotated[str, Field(min_length=1, max_length=8)] | None = None
    """How long a login lasts where the provider can't be asked anew. Default: `24h`."""
