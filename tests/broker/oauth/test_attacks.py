"""Attacks on signing in, each refused with the error that its RFC asks for, and without a trace that helps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from demarkus_broker.oauth import answers

URL = "https://mark.example.com"
REDIRECT = "http://127.0.0.1:5000/callback"
OURS = {"Origin": URL, "Sec-Fetch-Site": "same-origin"}


def error_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def told(answer: Any) -> str:
    """The error that a redirect tells a client."""
    assert answer.status_code == 303
    return parse_qs(urlsplit(answer.headers["location"]).query)["error"][0]


# Redirects


@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/cb",
        "http://127.0.0.1:5000/callback/../evil",
        "http://127.0.0.1:5000/callback?next=https://evil.example",
        "http://127.0.0.1:5000/callback#x",
        "http://127.0.0.1.evil.example/callback",
        "http://evil.example@127.0.0.1/callback",
        "http://127.0.0.1@evil.example/callback",
        "https://127.0.0.1/callback",
        "http://localhost:5000/callback",
        "//evil.example/callback",
        "javascript:alert(1)//http://127.0.0.1/callback",
        "http://127.0.0.1:5000/callback\r\nLocation: https://evil.example",
        "",
    ],
)
async def test_nobody_is_sent_to_a_redirect_that_was_not_registered(site: Any, uri: str) -> None:
    """RFC 9700, 4.1 and 4.11: no redirect at all, whatever else is wrong with the request."""
    client_id = await site.register()
    for more in ({}, {"response_type": "token"}, {"code_challenge": None}):
        answer = await site.ask("GET", site.query(client_id, redirect_uri=uri, **more))
        assert answer.status_code == 400
        assert "location" not in answer.headers
        assert "evil" not in answer.text


async def test_a_parameter_sent_twice_is_refused(site: Any) -> None:
    client_id = await site.register()
    query = site.query(client_id) + "&" + urlencode({"redirect_uri": "https://evil.example/cb"})
    assert (await site.ask("GET", query)).status_code == 400


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "id_token code"}, "unsupported_response_type"),
        ({"response_type": None}, "invalid_request"),
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"request_uri": "https://evil.example/r"}, "invalid_request"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"resource": "https://evil.example"}, "invalid_target"),
        ({"scope": 'a"b'}, "invalid_scope"),
    ],
)
async def test_a_bad_request_of_a_known_client_is_told_to_the_client(site: Any, fields: Any, error: str) -> None:
    """RFC 6749, 4.1.2.1; RFC 7636, 4.4.1; RFC 8707, 2; with `iss` (RFC 9207) and the client's state."""
    answer = await site.ask("GET", site.query(await site.register(), **fields))
    assert told(answer) == error
    query = parse_qs(urlsplit(answer.headers["location"]).query)
    assert (query["iss"], query["state"]) == ([URL], ["client-state"])


async def test_pkce_is_asked_of_confidential_clients_too(site: Any) -> None:
    query = site.query("chat", redirect_uri="https://chat.example/cb", code_challenge=None)
    assert told(await site.ask("GET", query)) == "invalid_request"


# Codes


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"code_verifier": None}, "invalid_grant"),
        ({"code_verifier": "w" * 50}, "invalid_grant"),
        ({"code_verifier": "short"}, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1:5001/callback"}, "invalid_grant"),
        ({"redirect_uri": "https://evil.example/cb"}, "invalid_grant"),
        ({"redirect_uri": None}, "invalid_grant"),
        ({"code": "0" * 10 + "-" + "0" * 32}, "invalid_grant"),
        ({"code": None}, "invalid_request"),
        ({"grant_type": None}, "invalid_request"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
        ({"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange"}, "unsupported_grant_type"),
        ({"resource": "https://evil.example/mcp"}, "invalid_target"),
    ],
)
async def test_an_injected_code_is_refused_and_not_used_up(site: Any, fields: Any, error: str) -> None:
    client_id = await site.register()
    code = (await site.come_back(client_id))["code"]
    assert error_of(await site.redeem(client_id, **{"code": code} | fields)) == (400, error)
    assert (await site.redeem(client_id, code)).status_code == 200


async def test_a_code_of_one_client_is_nothing_to_another(site: Any) -> None:
    code = (await site.come_back(await site.register()))["code"]
    assert error_of(await site.redeem(await site.register(), code)) == (400, "invalid_grant")
    assert error_of(await site.redeem("chat", code, client_secret="web-secret")) == (400, "invalid_grant")


async def test_a_code_used_twice_ends_the_login_of_its_first_use(site: Any) -> None:
    """RFC 6749, 4.1.2."""
    client_id = await site.register()
    code = (await site.come_back(client_id))["code"]
    first = (await site.redeem(client_id, code)).json()
    assert error_of(await site.redeem(client_id, code, replica=1)) == (400, "invalid_grant")
    assert error_of(await site.refresh(client_id, first["refresh_token"])) == (400, "invalid_grant")


async def test_of_many_uses_of_a_code_at_once_one_at_most_gets_tokens(site: Any) -> None:
    client_id = await site.register()
    code = (await site.come_back(client_id))["code"]
    answers = await asyncio.gather(*(site.redeem(client_id, code, replica=n % 2) for n in range(10)))
    assert sum(answer.status_code == 200 for answer in answers) == 1


async def test_a_code_is_good_for_a_minute(site: Any) -> None:
    client_id = await site.register()
    code = (await site.come_back(client_id))["code"]
    site.clock.at += 60
    assert error_of(await site.redeem(client_id, code)) == (400, "invalid_grant")


# State, cookies, mix-up


async def leave(site: Any, browser: Any, **fields: Any) -> str:
    """Go as far as the provider; gives where it sends the browser back to."""
    page = await browser.go("GET", site.query(await site.register(), **fields))
    return str(site.company.sign_in((await browser.submit(page)).headers["location"]))


async def test_a_sign_in_begun_in_another_browser_does_not_end_here(site: Any) -> None:
    """Login CSRF (RFC 6749, 10.12): the attacker's provider code in the victim's browser."""
    back = await leave(site, site.browser())
    victim = await site.browser().go("GET", back)
    assert victim.status_code == 400
    assert "location" not in victim.headers


@pytest.mark.parametrize("change", [lambda s: s[:-4] + "AAAA", lambda s: "A", lambda s: "", lambda s: s[4:]])
async def test_a_tampered_cookie_is_no_cookie(site: Any, change: Any) -> None:
    browser = site.browser()
    back = await leave(site, browser)
    for cookie in browser.jar.jar:
        cookie.value = change(cookie.value)
    assert (await browser.go("GET", back)).status_code == 400


async def test_a_cookie_of_another_sign_in_of_the_same_browser_does_not_fit(site: Any) -> None:
    browser = site.browser()
    first, second = await leave(site, browser), await leave(site, browser)
    names = sorted(cookie.name for cookie in browser.jar.jar if cookie.name.startswith("demarkus-login"))
    values = [next(cookie for cookie in browser.jar.jar if cookie.name == name) for name in names]
    values[0].value, values[1].value = values[1].value, values[0].value
    assert [(await browser.go("GET", back)).status_code for back in (first, second)] == [400, 400]


async def test_a_state_of_ones_own_leads_nowhere(site: Any) -> None:
    browser = site.browser()
    back = await leave(site, browser)
    forged = back.replace(parse_qs(urlsplit(back).query)["state"][0], "0" * 64)
    assert (await browser.go("GET", forged)).status_code == 400
    assert (await browser.go("GET", "/auth/callback?code=x")).status_code == 400


async def test_the_answer_can_not_be_replayed(site: Any) -> None:
    browser = site.browser()
    back = await leave(site, browser)
    assert "code=" in (await browser.go("GET", back)).headers["location"]
    assert (await browser.go("GET", back)).status_code == 400, "the cookie is gone"


async def test_a_sign_in_has_to_end_within_minutes(site: Any) -> None:
    browser = site.browser()
    back = await leave(site, browser)
    site.clock.at += 601
    assert (await browser.go("GET", back)).status_code == 400


@pytest.mark.parametrize("issuer", ["https://evil.example", None])
async def test_an_answer_of_another_provider_is_refused(site: Any, issuer: str | None) -> None:
    """Mix-up (RFC 9207, 2.4): the provider says that it sends `iss`, so a wrong or missing one is not from it."""
    browser = site.browser()
    back = urlsplit(await leave(site, browser))
    query = {name: values[0] for name, values in parse_qs(back.query).items() if name != "iss"}
    query |= {"iss": issuer} if issuer else {}
    assert told(await browser.go("GET", f"/auth/callback?{urlencode(query)}")) == "access_denied"


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        ("access_denied", "access_denied"),
        ("login_required", "access_denied"),
        ("server_error", "temporarily_unavailable"),
    ],
)
async def test_a_refusal_of_the_provider_goes_to_the_client_in_our_words(site: Any, problem: str, error: str) -> None:
    browser = site.browser()
    state = parse_qs(urlsplit(await leave(site, browser)).query)["state"][0]
    query = urlencode(
        {"error": problem, "error_description": "<injected>", "state": state, "iss": "https://accounts.example.com"}
    )
    answer = await browser.go("GET", f"/auth/callback?{query}")
    assert told(answer) == error
    assert "injected" not in answer.headers["location"]


# Consent


async def test_nobody_passes_through_without_being_asked(site: Any) -> None:
    """The confused deputy: a client that anybody may register, and a person who is signed in at the provider."""
    answer = await site.ask("GET", site.query(await site.register(), prompt="none"))
    assert answer.status_code == 200
    assert "<form" in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://mark.example.com.evil.example"},
    ],
)
async def test_the_question_is_not_answered_from_another_page(site: Any, headers: dict[str, str]) -> None:
    browser = site.browser()
    page = await browser.go("GET", site.query(await site.register()))
    answer = await browser.submit(page, headers=headers)
    assert answer.status_code == 400
    assert "location" not in answer.headers


async def test_the_question_is_not_answered_in_another_browser(site: Any) -> None:
    page = await site.browser().go("GET", site.query(await site.register()))
    assert (await site.browser().submit(page)).status_code == 400


async def test_the_question_of_one_purpose_is_no_answer_to_another(site: Any) -> None:
    browser = site.browser()
    page = await browser.go("GET", site.query(await site.register()))
    sealed = page.text.split('name="request" value="')[1].split('"')[0]
    form = {"request": sealed, "decision": "allow"}
    assert (await browser.go("POST", "/device/confirm", data=form, headers=OURS)).status_code == 400


async def test_pages_can_not_be_framed_scripted_or_kept(site: Any) -> None:
    client_id = await site.register(client_name="<img src=x onerror=alert(1)>")
    for path in (
        site.query(client_id),
        "/device?user_code=%22%3E%3Cscript%3E",
        "/oauth/authorize?client_id=%3Cscript%3E",
    ):
        page = await site.ask("GET", path)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-store"
        assert "<script" not in page.text
        assert "<img" not in page.text


async def test_cookies_are_out_of_reach_of_scripts_and_other_sites(site: Any) -> None:
    browser = site.browser()
    page = await browser.go("GET", site.query(await site.register()))
    leaving = await browser.submit(page)
    for answer, same_site in ((page, "strict"), (leaving, "lax")):
        cookie = answer.headers["set-cookie"].lower()
        assert {"httponly", "secure", f"samesite={same_site}"} <= {part.strip() for part in cookie.split(";")}


# Devices


async def test_a_device_is_not_connected_from_another_page(site: Any) -> None:
    client_id = await site.register()
    asked = (await site.ask("POST", "/device/authorize", data={"client_id": client_id})).json()
    evil = {"Origin": "https://evil.example"}
    browser = site.browser()
    form = {"user_code": asked["user_code"]}
    assert (await browser.go("POST", "/device", data=form, headers=evil)).status_code == 403
    page = await browser.go("POST", "/device", data=form, headers=OURS)
    assert (await browser.submit(page, headers=evil)).status_code == 400
    assert (await site.browser().submit(page)).status_code == 400


async def test_a_device_code_of_one_client_is_nothing_to_another(site: Any) -> None:
    """RFC 8628, 5.5: the client is checked."""
    client_id = await site.register()
    asked = (await site.ask("POST", "/device/authorize", data={"client_id": client_id})).json()
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": asked["device_code"]}
    assert error_of(await site.token(client_id=await site.register(), **form)) == (400, "invalid_grant")
    assert error_of(await site.token(client_id=client_id, **form)) == (400, "authorization_pending")
    assert error_of(await site.token(client_id="nobody", **form)) == (401, "invalid_client")
    assert error_of(await site.ask("POST", "/device/authorize", data={"scope": "mcp"})) == (401, "invalid_client")


async def test_a_decision_can_not_be_made_twice(site: Any) -> None:
    client_id = await site.register()
    asked = (await site.ask("POST", "/device/authorize", data={"client_id": client_id})).json()
    one, other = site.browser(), site.browser()
    pages = [await browser.go("POST", "/device", data={"user_code": asked["user_code"]}) for browser in (one, other)]
    assert (await one.submit(pages[0], "deny")).status_code == 200
    leaving = await other.submit(pages[1])
    assert (await other.go("GET", site.company.sign_in(leaving.headers["location"]))).status_code == 400
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": asked["device_code"]}
    assert error_of(await site.token(client_id=client_id, **form)) == (400, "access_denied")


@pytest.mark.parametrize("typed", ["", "AAAA-AAAA", "BCDF-GHJK", "../../x", "%00", "é" * 8])
async def test_a_guessed_user_code_says_only_that_nobody_waits(site: Any, typed: str) -> None:
    answer = await site.browser().go("POST", "/device", data={"user_code": typed})
    assert answer.status_code == 400


# Refresh tokens and clients


async def test_a_refresh_token_of_one_client_is_nothing_to_another(site: Any) -> None:
    client_id, tokens = await site.signed_in()
    assert error_of(await site.refresh(await site.register(), tokens["refresh_token"])) == (400, "invalid_grant")
    assert error_of(await site.refresh("chat", tokens["refresh_token"], client_secret="web-secret")) == (
        400,
        "invalid_grant",
    )
    assert (await site.refresh(client_id, tokens["refresh_token"])).status_code == 200


async def test_a_refresh_never_gives_more_than_was_granted(site: Any) -> None:
    client_id, tokens = await site.signed_in()
    answer = await site.refresh(client_id, tokens["refresh_token"], scope="mcp offline_access")
    assert error_of(answer) == (400, "invalid_scope")


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_a_token_of_one_kind_is_nothing_in_the_place_of_another(site: Any, kind: str) -> None:
    client_id, tokens = await site.signed_in()
    if kind == "refresh_token":
        assert (await site.call(tokens[kind])).status_code == 401
    else:
        assert error_of(await site.refresh(client_id, tokens[kind])) == (400, "invalid_grant")


async def test_a_hosted_client_that_is_taken_out_of_the_settings_is_out(site: Any) -> None:
    redirect = {"redirect_uri": "https://chat.example/cb"}
    code = (await site.come_back("chat", **redirect))["code"]
    tokens = (await site.redeem("chat", code, client_secret="web-secret", **redirect)).json()
    site.settings = site.settings.model_copy(update={"web_clients": ()})
    answer = await site.refresh("chat", tokens["refresh_token"], client_secret="web-secret")
    assert error_of(answer) == (401, "invalid_client")


async def test_only_forms_are_taken_where_forms_are_asked_for(site: Any) -> None:
    client_id = await site.register()
    for how in (
        {"json": {"client_id": client_id}},
        {"content": b"client_id=x", "headers": {"Content-Type": "text/plain"}},
    ):
        assert error_of(await site.ask("POST", "/token", **how)) == (400, "invalid_request")
    assert (await site.ask("GET", f"/token?client_id={client_id}&grant_type=refresh_token")).status_code == 405


# Registration


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"json": {"redirect_uris": ["https://evil.example/*"]}}, "invalid_redirect_uri"),
        ({"json": {"redirect_uris": ["http://evil.example/cb"]}}, "invalid_redirect_uri"),
        ({"json": {"redirect_uris": []}}, "invalid_redirect_uri"),
        ({"json": {"client_name": "x"}}, "invalid_redirect_uri"),
        ({"json": {"redirect_uris": [REDIRECT], "client_name": "x" * 1000}}, "invalid_client_metadata"),
        ({"json": {"redirect_uris": [REDIRECT], "response_types": ["token"]}}, "invalid_client_metadata"),
        ({"json": [1]}, "invalid_client_metadata"),
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, "invalid_client_metadata"),
        ({"data": {"redirect_uris": REDIRECT}}, "invalid_client_metadata"),
    ],
)
async def test_an_odd_registration_is_refused(site: Any, how: Any, error: str) -> None:
    assert error_of(await site.ask("POST", "/register", **how)) == (400, error)
    assert await site.blobs_under("registrations/") == []


async def test_a_huge_body_is_not_read_to_its_end(site: Any) -> None:
    for path, kind in (("/register", "application/json"), ("/token", "application/x-www-form-urlencoded")):
        answer = await site.ask("POST", path, content=b"a" * (1 << 20), headers={"Content-Type": kind})
        assert answer.status_code == 400


async def test_a_body_that_does_not_arrive_is_not_waited_for(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "BODY_DEADLINE", 0.05)
    client_id = await site.register()

    async def drip() -> AsyncIterator[bytes]:
        yield f"client_id={client_id}".encode()
        await asyncio.Event().wait()

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert error_of(await site.ask("POST", "/token", content=drip(), headers=headers)) == (400, "invalid_request")


async def test_nobody_chooses_the_identifier_of_a_client(site: Any) -> None:
    answer = await site.ask("POST", "/register", json={"redirect_uris": [REDIRECT], "client_id": "chat"})
    assert answer.json()["client_id"].startswith("d-")


async def test_registrations_have_a_bound(site: Any) -> None:
    site.servers[0].state.population.counts["registrations"] = 50_000
    answer = await site.ask("POST", "/register", json={"redirect_uris": [REDIRECT]})
    assert error_of(answer) == (503, "temporarily_unavailable")


# Headers on the way


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-Host": "evil.example"},
        {"Forwarded": "host=evil.example;proto=http"},
        {"X-Forwarded-Proto": "http", "X-Forwarded-Port": "1"},
        {"X-Original-URL": "/mcp", "X-Rewrite-URL": "/mcp"},
        {"X-Forwarded-Prefix": "/evil"},
    ],
)
async def test_no_header_of_a_proxy_changes_what_the_gateway_says_of_itself(site: Any, headers: dict[str, str]) -> None:
    for path in ("/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"):
        answer = await site.ask("GET", path, headers=headers)
        assert "evil" not in json.dumps(answer.json())
        assert answer.json() == (await site.ask("GET", path)).json()


@pytest.mark.parametrize("path", ["/mcp", "/token", "/oauth/authorize", "/.well-known/oauth-authorization-server"])
async def test_a_name_that_was_bound_to_our_address_gets_nothing(site: Any, path: str) -> None:
    """DNS rebinding."""
    for host in ("evil.example", "mark.example.com.evil.example", "127.0.0.1", ""):
        assert (await site.ask("GET", path, headers={"Host": host})).status_code == 421


async def test_an_authorization_header_that_comes_twice_names_nobody(site: Any) -> None:
    _, tokens = await site.signed_in()
    twice = [("Authorization", f"Bearer {tokens['access_token']}"), ("Authorization", "Bearer x")]
    assert (await site.ask("POST", "/mcp", json={}, headers=twice)).status_code == 401


async def test_errors_say_nothing_of_what_was_sent(site: Any) -> None:
    client_id = await site.register()
    for form in (
        {"grant_type": "refresh_token", "refresh_token": "hunter2"},
        {"grant_type": "authorization_code", "code": "hunter2", "code_verifier": "hunter2"},
        {"grant_type": "hunter2"},
    ):
        assert "hunter2" not in (await site.token(client_id=client_id, **form)).text
