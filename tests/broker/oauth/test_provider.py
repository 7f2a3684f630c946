"""The company's provider: tokens that are taken and refused, what providers really say of people, outages."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from demarkus_broker.identity import admits, person_of
from demarkus_broker.oauth import id_tokens
from demarkus_broker.settings import PersonEntry

ISSUER = "https://accounts.example.com"
NOW = 1_800_000_000


async def came_back(site: Any, **fields: Any) -> Any:
    return await site.come_back(await site.register(), **fields)


# Tokens of the provider


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def with_header(token: str, **header: Any) -> str:
    """A token with another header, and the signature that it had."""
    return f"{part({'alg': 'ES256', 'kid': 'k1'} | header)}.{token.partition('.')[2]}"


def without_signature(token: str) -> str:
    return f"{part({'alg': 'none'})}.{token.split('.')[1]}."


def with_hmac(token: str, key: ECKey) -> str:
    """Signed with the public key as if it were a secret."""
    text = f"{part({'alg': 'HS256', 'kid': 'k1'})}.{token.split('.')[1]}"
    mac = hmac.new(key.as_pem(private=False), text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def altered(token: str) -> str:
    header, payload, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return f"{header}.{part(claims | {'sub': 'root'})}.{signature}"


def foreign() -> ECKey:
    return ECKey.import_key(ec.generate_private_key(ec.SECP256R1()))


def with_own_key(company: Any, claims: dict[str, Any]) -> str:
    own = foreign()
    return str(company.id_token({"jwk": own.as_dict(private=False)}, key=own, **claims))


# What the company (c) answers where the good claims would have the nonce n.
FORGED: dict[str, Any] = {
    "no signature": lambda c, n: without_signature(c.id_token(**n)),
    "alg none, signed": lambda c, n: with_header(c.id_token(**n), alg="none"),
    "HMAC with the public key": lambda c, n: with_hmac(c.id_token(**n), c.key),
    "another alg than the key's": lambda c, n: with_header(c.id_token(**n), alg="RS256"),
    "critical extension": lambda c, n: with_header(c.id_token(**n), crit=["x"], x=1),
    "foreign key, our kid": lambda c, n: c.id_token(key=foreign(), **n),
    "foreign key in the header": with_own_key,
    "foreign kid": lambda c, n: c.id_token({"kid": "other"}, **n),
    "cut": lambda c, n: c.id_token(**n)[:-4],
    "altered": lambda c, n: altered(c.id_token(**n)),
    "not a token": lambda c, n: "x",
    "foreign issuer": lambda c, n: c.id_token(iss="https://evil.example", **n),
    "foreign audience": lambda c, n: c.id_token(aud="other", **n),
    "two audiences, no azp": lambda c, n: c.id_token(aud=["gateway", "other"], **n),
    "foreign azp": lambda c, n: c.id_token(azp="other", **n),
    "expired": lambda c, n: c.id_token(exp=NOW - 120, **n),
    "from the future": lambda c, n: c.id_token(iat=NOW + 600, **n),
    "no exp": lambda c, n: c.id_token(exp=None, **n),
    "another nonce": lambda c, n: c.id_token(nonce="replayed"),
    "no nonce": lambda c, n: c.id_token(),
    "no subject": lambda c, n: c.id_token(sub="", **n),
    "odd subject": lambda c, n: c.id_token(sub="a\nb", **n),
    "subject of another kind": lambda c, n: c.id_token(sub=7, **n),
}


@pytest.mark.parametrize("forged", FORGED)
async def test_a_token_that_is_not_the_providers_for_us_now_lets_nobody_in(site: Any, forged: str) -> None:
    site.company.wrong_token = lambda nonce: FORGED[forged](site.company, nonce)
    back = await came_back(site)
    assert back["error"] == "server_error"
    assert "code" not in back


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("RS256", RSAKey.import_key(rsa.generate_private_key(65537, 2048))),
        ("PS256", RSAKey.import_key(rsa.generate_private_key(65537, 2048))),
        ("ES256", ECKey.import_key(ec.generate_private_key(ec.SECP256R1()))),
        ("ES384", ECKey.import_key(ec.generate_private_key(ec.SECP384R1()))),
        ("Ed25519", OKPKey.import_key(Ed25519PrivateKey.generate())),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("kid", ["k1", None])
def test_every_usual_signature_of_a_provider_is_verified(algorithm: str, key: Any, kid: str | None) -> None:
    header = {"alg": algorithm} | ({"kid": kid} if kid else {})
    claims = {"iss": ISSUER, "aud": ["gateway"], "sub": "ann", "iat": NOW, "exp": NOW + 60}
    token = jwt.encode(header, claims, key, [algorithm])
    other = ECKey.import_key(ec.generate_private_key(ec.SECP256R1()))
    listed = [{**one.as_dict(private=False), "kid": name} for one, name in ((other, "k0"), (key, "k1"))]
    keys = KeySet.import_key_set({"keys": listed})  # type: ignore[typeddict-item]
    found = id_tokens.verify(token, keys, issuer=ISSUER, client_id="gateway", nonce=None, now=NOW)
    assert found["sub"] == "ann"


async def test_keys_that_the_provider_exchanged_are_fetched_once_in_a_while(site: Any) -> None:
    await came_back(site)
    site.company.key = ECKey.import_key(ec.generate_private_key(ec.SECP256R1()))
    site.company.wrong_token = lambda nonce: site.company.id_token({"kid": "k2"}, **nonce)
    for _ in range(3):
        assert (await came_back(site))["error"] == "server_error"
    assert site.company.asked.count(f"{ISSUER}/jwks") == 1, "not more often than PATIENCE says"
    site.clock.at += 3601
    site.company.wrong_token = None
    assert (await came_back(site))["code"]


# What providers say of people

GOOGLE = {"sub": "1122", "hd": "example.com", "email": "Ann@Example.com", "email_verified": True, "azp": "gateway"}
GOOGLE_CONSUMER = {"sub": "1123", "email": "ann@example.com", "email_verified": True}
ENTRA = {
    "sub": "AAAAAAAAAAAA", "oid": "0000-1", "tid": "tenant-1", "preferred_username": "ann@example.com",
    "email": "ann@example.com", "groups": ["0f1e-group"], "roles": ["Wiki.Writer"], "ver": "2.0",
}  # fmt: skip
KEYCLOAK = {
    "sub": "6f0c", "email": "ann@example.com", "email_verified": True, "groups": ["/staff", "/staff/wiki"],
    "realm_access": {"roles": ["wiki"]}, "preferred_username": "ann",
}  # fmt: skip
OKTA = {
    "sub": "00u1", "email": "ann@example.com", "email_verified": True, "groups": ["Everyone", "Wiki Writers"],
    "idp": "00o1", "amr": ["pwd"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("claims", "rule", "admitted"),
    [
        (GOOGLE, {"domains": ["example.com"]}, True),
        (GOOGLE, {"emails": ["ann@example.com"]}, True),
        (GOOGLE | {"email_verified": False}, {"emails": ["ann@example.com"]}, False),
        (GOOGLE_CONSUMER, {"claims": {"hd": ["example.com"]}}, False),
        (GOOGLE | {"hd": "evil.example"}, {"domains": ["example.com"]}, False),
        (ENTRA, {"claims": {"tid": ["tenant-1"]}}, True),
        (ENTRA, {"claims": {"tid": ["tenant-2"]}}, False),
        (ENTRA, {"claims": {"roles": ["Wiki.Writer"]}}, True),
        (ENTRA, {"groups": ["0F1E-group"]}, True),
        (ENTRA, {"emails": ["ann@example.com"]}, False),
        (KEYCLOAK, {"groups": ["/staff"]}, True),
        (KEYCLOAK, {"groups": ["staff"]}, False),
        (OKTA, {"groups": ["wiki writers"], "domains": ["example.com"]}, True),
        (OKTA, {"groups": ["wiki writers"], "domains": ["other.example"]}, False),
    ],
)
async def test_rules_meet_what_google_entra_keycloak_and_okta_say(
    site: Any, claims: dict[str, Any], rule: dict[str, Any], admitted: bool
) -> None:
    """Entra does not say that an e-mail is verified, so rules for it name tenants, roles or groups."""
    site.configure(rules=[rule])
    site.company.wrong_token = lambda nonce: site.company.id_token(**{"email_verified": None} | claims, **nonce)
    client_id = await site.register()
    back = await site.come_back(client_id)
    assert ("code" in back) is admitted
    if admitted:
        tokens = (await site.redeem(client_id, back["code"])).json()
        assert (await site.call(tokens["access_token"])).status_code == 200
        assert site.persons[-1].subject == claims["sub"]
    else:
        assert back["error"] == "access_denied"


def test_a_google_account_of_no_organisation_is_of_none_whatever_its_address() -> None:
    """Somebody who left keeps a private account under the old address, which Google calls verified."""
    rule = PersonEntry(domains=("example.com",))
    for claims, admitted in ((GOOGLE, True), (GOOGLE_CONSUMER, False)):
        kept = id_tokens.kept(claims, issuer="https://accounts.google.com")
        assert admits([rule], person_of({**kept, "iss": ISSUER})) is admitted


# Discovery


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"issuer": f"{ISSUER}/"},
        {"token_endpoint": None},
        {"authorization_endpoint": "http://accounts.example.com/authorize"},
        {"jwks_uri": "file:///etc/passwd"},
    ],
)
async def test_metadata_that_does_not_hold_lets_nobody_in(site: Any, metadata: dict[str, Any]) -> None:
    site.company.metadata = metadata
    browser = site.browser()
    leave = await browser.submit(await browser.go("GET", site.query(await site.register())))
    assert "error=server_error" in leave.headers["location"]


async def test_a_provider_that_is_down_for_a_while_is_not_forgotten(site: Any) -> None:
    await came_back(site)
    site.clock.at += 3601
    browser = site.browser()
    site.company.down = True
    leave = await browser.submit(await browser.go("GET", site.query(await site.register())))
    assert leave.headers["location"].startswith(f"{ISSUER}/authorize?")
    site.company.down = False
    assert "code=" in (await browser.go("GET", site.company.sign_in(leave.headers["location"]))).headers["location"]


async def test_the_gateway_uses_pkce_a_nonce_and_the_scopes_of_the_settings(site: Any) -> None:
    site.configure(scopes=["email", "groups"])
    browser = site.browser()
    leave = await browser.submit(await browser.go("GET", site.query(await site.register())))
    site.company.sign_in(leave.headers["location"])
    (asked,) = site.company.codes.values()
    assert asked["scope"] == "openid email groups"
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == "https://mark.example.com/auth/callback"
    assert len(asked["nonce"]) == len(asked["state"]) == 64
