"""The authorization server's decisions, as functions of values."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demarkus_broker.oauth import parameters, pkce, redirects, registration, requests, resources, scopes
from demarkus_broker.oauth.clients import Client, authenticate, credentials
from demarkus_broker.oauth.errors import OAuthError
from demarkus_broker.state.names import digest

URL = "https://mark.example.com"
NOW = 1_800_000_000


def refused(code: str) -> Any:
    return pytest.raises(OAuthError, match=rf"^{code}: ")


# Redirects


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1/callback",
        "http://127.0.0.1:49152/callback",
        "http://localhost:3118/callback",
        "http://[::1]:8080/cb?x=1",
        "https://claude.ai/api/mcp/auth_callback",
        "https://chatgpt.com/connector_platform_oauth_redirect",
        "https://vscode.dev/redirect",
        "cursor://anysphere.cursor-mcp/oauth/callback",
    ],
)
def test_what_clients_register_is_taken_and_met_exactly(uri: str) -> None:
    assert redirects.why_not(uri) is None
    assert redirects.matches([uri], uri)


REFUSED_REDIRECTS = [
    "",
    "https://",
    "/callback",
    "//evil.example/cb",
    "javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "myapp://callback",
    "http://evil.example/cb",
    "http://127.0.0.1.evil.example/cb",
    "http://localhost.evil.example/cb",
    "http://localhost@evil.example/cb",
    "http://evil.example@localhost/cb",
    "http://127.1/cb",
    "http://0x7f000001/cb",
    "http://2130706433/cb",
    "http://127.0.0.2/cb",
    "http://[::ffff:127.0.0.1]/cb",
    "http://LOCALHOST/cb",
    "http://localhost:99999/cb",
    "http://localhost:0/cb",
    "https://user:pw@good.example/cb",
    "https://good.example/cb#fragment",
    "https://*.example.com/cb",
    "https://good.example/*",
    "https://good.example\\@evil.example/cb",
    "https://good.example/cb\r\nSet-Cookie: x=y",
    "https://good.example/c b",
    "https://good.example/\tcb",
    "https://göod.example/cb",
    "https://10.0.0.1/cb",
    "https://[fd00::1]/cb",
    "https://169.254.169.254/latest",
    "https://intranet/cb",
    "https://1.2.3.4./cb",
    "https://good.example./cb",
    "https://good.example/" + "a" * 600,
]


@pytest.mark.parametrize("uri", REFUSED_REDIRECTS)
def test_what_could_lead_astray_is_no_redirect(uri: str) -> None:
    assert redirects.why_not(uri) is not None
    assert not redirects.matches([uri], uri), "also not where it slipped into a list"


def test_f3_loopback_redirects_match_with_any_port_and_nothing_else() -> None:
    document = ["http://localhost/callback", "http://127.0.0.1/callback"]
    assert redirects.matches(document, "http://localhost:51234/callback")
    assert redirects.matches(document, "http://127.0.0.1:1/callback")
    assert redirects.matches(["http://[::1]:99/cb"], "http://[::1]:100/cb")
    for other in (
        "http://localhost:51234/",
        "http://localhost:51234/callback/",
        "http://localhost:51234/callback?x=1",
        "http://[::1]:51234/callback",
        "https://localhost:51234/callback",
        "http://localhost:51234/callback%2f",
        "http://localhost:/other",
    ):
        assert not redirects.matches(document, other)


@pytest.mark.parametrize(
    "asked",
    [
        "https://good.example/cb/",
        "https://good.example/cb?x=1",
        "https://good.example/cb/../cb",
        "https://good.example/CB",
        "https://good.example:443/cb",
        "https://Good.example/cb",
        "https://good.example.evil.example/cb",
        "https://good.example/cb%2e",
        "https://sub.good.example/cb",
        "http://good.example/cb",
    ],
)
def test_a_redirect_on_the_web_is_met_character_by_character(asked: str) -> None:
    assert not redirects.matches(["https://good.example/cb"], asked)


@given(st.text())
def test_no_text_makes_redirect_rules_fail(uri: str) -> None:
    if redirects.why_not(uri) is None:
        assert redirects.matches([uri], uri)


# PKCE


def test_the_example_of_rfc_7636_holds() -> None:
    verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert pkce.challenge_of(verifier) == challenge
    assert pkce.is_challenge(challenge)
    assert pkce.proves(verifier, challenge)


@pytest.mark.parametrize("verifier", ["", "a" * 42, "a" * 129, "ä" * 43, "a" * 42 + "\n", "a" * 43])
def test_a_wrong_or_ill_formed_verifier_proves_nothing(verifier: str) -> None:
    assert not pkce.proves(verifier, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")


def test_a_plain_challenge_is_never_proved_by_itself() -> None:
    plain = "a" * 43
    assert not pkce.proves(plain, plain)


# Resources


@pytest.mark.parametrize("path", ["", "/", "/mcp", "/mcp/"])
@pytest.mark.parametrize("origin", [URL, "https://MARK.example.com", f"{URL}:443"])
def test_f6_every_way_to_write_this_gateway_is_the_gateway(origin: str, path: str) -> None:
    resources.check([origin + path], URL)


@pytest.mark.parametrize(
    "resource",
    [
        "https://evil.example/mcp",
        "http://mark.example.com/mcp",
        "https://mark.example.com:8443/mcp",
        "https://mark.example.com.evil.example/mcp",
        "https://mark.example.com@evil.example/mcp",
        "https://evil.example@mark.example.com/mcp",
        "https://mark.example.com/mcp/other",
        "https://mark.example.com/MCP",
        "https://mark.example.com//mcp",
        "https://mark.example.com/mcp?x",
        "https://mark.example.com/mcp#",
        "https://mark.example.com\\.evil.example/mcp",
        "https://mark.example.com:port/mcp",
        "mark.example.com/mcp",
        "https://[/mcp",
    ],
)
def test_another_resource_is_an_invalid_target(resource: str) -> None:
    with refused("invalid_target"):
        resources.check([f"{URL}/mcp", resource], URL)


def test_no_resource_means_the_gateway_and_a_gateway_on_loopback_has_one_too() -> None:
    resources.check([], URL)
    resources.check(["http://127.0.0.1:8080/mcp/"], "http://127.0.0.1:8080")


# Scopes


@pytest.mark.parametrize(
    ("asked", "given_"),
    [
        (None, "mcp"),
        ("mcp", "mcp"),
        ("offline_access", "mcp offline_access"),
        ("offline_access mcp", "mcp offline_access"),
        ("openid email", "mcp"),
    ],
)
def test_known_scopes_are_granted_and_unknown_ones_left_out(asked: str | None, given_: str) -> None:
    assert scopes.granted(asked) == given_


@pytest.mark.parametrize("asked", [" mcp", "mcp  x", 'a"b', "a\\b", "mcp\n", "ä"])
def test_what_is_no_scope_is_an_invalid_scope(asked: str) -> None:
    with refused("invalid_scope"):
        scopes.granted(asked)


def test_a_refreshed_scope_never_grows() -> None:
    assert scopes.narrowed("mcp offline_access", None) == "mcp offline_access"
    assert scopes.narrowed("mcp offline_access", "mcp openid") == "mcp"
    with refused("invalid_scope"):
        scopes.narrowed("mcp", "mcp offline_access")


# Parameters


@pytest.mark.parametrize(
    "text",
    [
        b"state=1&state=2",
        b"client_id=a&client_id=a",
        b"a=%ff",
        "ä=1".encode(),
        b"a=%00",
        b"&".join(b"a%d=1" % n for n in range(60)),
        b"a=" + b"x" * (64 << 10),
    ],
    ids=["twice", "twice the same", "not UTF-8", "raw bytes", "NUL", "too many", "too long"],
)
def test_odd_parameters_are_an_invalid_request(text: bytes) -> None:
    with refused("invalid_request"):
        parameters.read(text)


def test_a_parameter_without_value_counts_as_left_out_and_resource_may_be_repeated() -> None:
    sent = parameters.read(b"state=&resource=a&resource=b")
    assert sent.get("state") is None
    assert sent.all("resource") == ["a", "b"]
    with refused("invalid_request"):
        sent.require("state")


# Clients

WEB = Client(id="chat", name="Chat", redirect_uris=("https://chat.example/cb",), secret_hash=digest("se+cret"))
PUBLIC = Client(id="d-1", name="Notes", redirect_uris=("http://127.0.0.1/cb",))


def basic(text: str) -> list[str]:
    return ["Basic " + base64.b64encode(text.encode()).decode()]


@pytest.mark.parametrize(
    ("headers", "form"),
    [(basic("chat:se%2Bcret"), b""), ([], b"client_id=chat&client_secret=se%2Bcret")],
    ids=["basic", "post"],
)
def test_a_confidential_client_shows_its_secret_in_either_way(headers: list[str], form: bytes) -> None:
    authenticate(WEB, credentials(headers, parameters.read(form)))


@pytest.mark.parametrize(
    ("headers", "form", "code"),
    [
        ([], b"", "invalid_client"),
        ([], b"client_id=chat", "invalid_client"),
        ([], b"client_id=chat&client_secret=wrong", "invalid_client"),
        (basic("chat:wrong"), b"", "invalid_client"),
        (basic("chat:se%2Bcret"), b"client_id=other", "invalid_client"),
        (basic("chat:se%2Bcret"), b"client_secret=se%2Bcret", "invalid_request"),
        (basic("chat:se%2Bcret") * 2, b"", "invalid_request"),
        (basic("chat"), b"client_id=chat", "invalid_client"),
        (["Basic !"], b"client_id=chat", "invalid_client"),
        (["Bearer x"], b"client_id=chat", "invalid_client"),
    ],
)
def test_who_can_not_show_it_is_refused(headers: list[str], form: bytes, code: str) -> None:
    with refused(code):
        authenticate(WEB, credentials(headers, parameters.read(form)))


def test_a_public_client_needs_no_secret() -> None:
    authenticate(PUBLIC, credentials([], parameters.read(b"client_id=d-1&client_secret=")))


# Registration


def a_registration(**fields: Any) -> bytes:
    return json.dumps({"redirect_uris": ["http://127.0.0.1/cb"], "client_name": "Notes"} | fields).encode()


def test_a_registered_client_is_public_whatever_it_asked_for() -> None:
    asked = registration.read(a_registration(token_endpoint_auth_method="client_secret_basic", scope="all"))
    answer = asked.answer("d-1", now=NOW)
    assert answer["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in answer
    assert answer["client_name"] == "Notes"
    assert answer["redirect_uris"] == ["http://127.0.0.1/cb"]


@pytest.mark.parametrize("uri", [*REFUSED_REDIRECTS, 7, None, ["https://a.example/cb"]], ids=str)
def test_a_bad_redirect_can_not_be_registered(uri: object) -> None:
    with refused("invalid_redirect_uri"):
        registration.read(a_registration(redirect_uris=["http://127.0.0.1/cb", uri]))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": None}, "invalid_redirect_uri"),
        ({"redirect_uris": "http://127.0.0.1/cb"}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://127.0.0.1/cb"] * 9}, "invalid_redirect_uri"),
        ({"client_name": "x" * 129}, "invalid_client_metadata"),
        ({"client_name": "a\u202eb"}, "invalid_client_metadata"),
        ({"client_name": " "}, "invalid_client_metadata"),
        ({"client_name": 7}, "invalid_client_metadata"),
        ({"response_types": ["token"]}, "invalid_client_metadata"),
        ({"response_types": "code"}, "invalid_client_metadata"),
        ({"software_statement": "x" * 20_000}, "invalid_client_metadata"),
    ],
)
def test_odd_metadata_is_refused_with_the_code_of_the_rfc(fields: dict[str, Any], code: str) -> None:
    with refused(code):
        registration.read(a_registration(**fields))


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 10_000])
def test_a_registration_that_is_no_json_object_is_refused(body: bytes) -> None:
    with refused("invalid_client_metadata"):
        registration.read(body)


def test_a_client_for_devices_only_needs_no_redirect() -> None:
    asked = {"client_name": "TV", "grant_types": ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"]}
    assert registration.read(json.dumps(asked).encode()).redirect_uris == ()


# Authorization requests


def query(**fields: str | None) -> parameters.Parameters:
    values = {
        "response_type": "code",
        "client_id": "d-1",
        "redirect_uri": "http://127.0.0.1:5000/cb",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "code_challenge_method": "S256",
        "state": "xyz",
    } | fields
    return parameters.Parameters({name: [value] for name, value in values.items() if value is not None})


def judged(**fields: str | None) -> requests.AuthorizationRequest:
    sent = query(**fields)
    redirect_uri = requests.trusted_redirect(sent, PUBLIC)
    return requests.judge(sent, client=PUBLIC, redirect_uri=redirect_uri, public_url=URL)


def test_a_good_request_is_kept_whole() -> None:
    request = judged(scope="offline_access", resource=URL)
    assert request.state == "xyz"
    assert request.scope == "mcp offline_access"
    assert requests.AuthorizationRequest(**request.facts()) == request


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"response_type": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code id_token"}, "unsupported_response_type"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": "s256"}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge": "=" * 43}, "invalid_request"),
        ({"state": "x" * 2000}, "invalid_request"),
        ({"resource": "https://evil.example/mcp"}, "invalid_target"),
        ({"scope": 'a"b'}, "invalid_scope"),
        ({"request": "eyJ"}, "invalid_request"),
        ({"request_uri": "https://evil.example"}, "invalid_request"),
        ({"redirect_uri": None}, "invalid_request"),
        ({"redirect_uri": "http://127.0.0.1:5000/other"}, "invalid_request"),
        ({"redirect_uri": "https://evil.example/cb"}, "invalid_request"),
    ],
)
def test_a_bad_request_is_refused_with_the_code_of_the_rfc(fields: dict[str, str | None], code: str) -> None:
    with refused(code):
        judged(**fields)


def test_a_web_client_with_one_redirect_need_not_send_it() -> None:
    assert requests.trusted_redirect(query(redirect_uri=None), WEB) == "https://chat.example/cb"


def test_an_answer_carries_state_and_issuer_and_keeps_the_query_of_the_redirect() -> None:
    url = requests.answer("https://a.example/cb?x=1", issuer=URL, state="a&b", members={"code": "c"})
    assert url == "https://a.example/cb?x=1&code=c&state=a%26b&iss=https%3A%2F%2Fmark.example.com"
