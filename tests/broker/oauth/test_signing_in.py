"""Signing in from end to end, at two replicas over one store, with a provider that signs real tokens."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

URL = "https://mark.example.com"
REDIRECT = "http://127.0.0.1:5000/callback"


async def test_a_client_gets_in_by_url_only(site: Any) -> None:
    """401, its metadata, the server's metadata, registration, code and PKCE, a call."""
    challenge = (await site.ask("POST", "/mcp", json={})).headers["www-authenticate"]
    resource = (await site.ask("GET", challenge.split('resource_metadata="')[1].rstrip('"'))).json()
    assert resource["resource"] == f"{URL}/mcp"
    server = resource["authorization_servers"][0]
    metadata = (await site.ask("GET", f"{server}/.well-known/oauth-authorization-server")).json()
    assert metadata["issuer"] == server
    registered = await site.ask("POST", metadata["registration_endpoint"], json={"redirect_uris": [REDIRECT]})
    client_id = registered.json()["client_id"]
    back = await site.come_back(client_id)
    assert (back["to"], back["state"], back["iss"]) == (REDIRECT, "client-state", server)
    answer = await site.redeem(client_id, back["code"])
    assert answer.headers["cache-control"] == "no-store"
    tokens = answer.json()
    assert (tokens["token_type"], tokens["scope"]) == ("Bearer", "mcp")
    assert (await site.call(tokens["access_token"])).status_code == 200
    assert (site.persons[-1].subject, site.persons[-1].email) == ("ann-1", "ann@example.com")


async def test_a_login_begun_at_one_replica_ends_at_another(site: Any) -> None:
    client_id = await site.register()
    back = await site.come_back(client_id, replicas=(0, 1, 0))
    answer = await site.redeem(client_id, back["code"], replica=1)
    assert answer.status_code == 200
    assert (await site.call(answer.json()["access_token"], replica=0)).status_code == 200


async def test_a_hosted_client_shows_its_secret(site: Any) -> None:
    redirect = {"redirect_uri": "https://chat.example/cb"}
    back = await site.come_back("chat", **redirect)
    assert (await site.redeem("chat", back["code"], **redirect)).json()["error"] == "invalid_client"
    wrong = await site.redeem("chat", back["code"], client_secret="wrong", **redirect)
    assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_client")
    good = await site.redeem("chat", back["code"], auth=("chat", "web-secret"), **redirect)
    assert good.status_code == 200, "a wrong secret burns no code"


@pytest.mark.parametrize("path", ["/token", "/device/token"])
async def test_a_device_gets_in(site: Any, path: str) -> None:
    client_id = await site.register(client_name="TV")
    asked = (await site.ask("POST", "/device/authorize", data={"client_id": client_id})).json()
    assert asked["verification_uri"] == f"{URL}/device"
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        "client_id": client_id,
        "device_code": asked["device_code"],
    }
    assert (await site.token(path=path, **form)).json()["error"] == "authorization_pending"
    browser = site.browser()
    page = await browser.go("GET", asked["verification_uri_complete"])
    assert asked["user_code"] in page.text
    page = await browser.go("POST", "/device", data={"user_code": asked["user_code"].lower()}, replica=1)
    assert "TV" in page.text
    leave = await browser.submit(page)
    done = await browser.go("GET", site.company.sign_in(leave.headers["location"]), replica=1)
    assert (done.status_code, "connected" in done.text) == (200, True)
    answer = await site.token(path=path, replica=1, **form)
    assert (await site.call(answer.json()["access_token"])).status_code == 200
    assert (await site.token(path=path, **form)).json()["error"] == "invalid_grant"
    assert (await site.refresh(client_id, answer.json()["refresh_token"])).status_code == 200


async def test_a_device_that_asks_too_soon_has_to_wait_longer(site: Any) -> None:
    client_id = await site.register()
    device_code = (await site.ask("POST", "/device/authorize", data={"client_id": client_id})).json()["device_code"]
    answers = []
    for wait in (5, 5, 1, 5, 15, 600):
        site.clock.at += wait
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "client_id": client_id}
        answers.append((await site.token(device_code=device_code, **form)).json()["error"])
    pending, slow = "authorization_pending", "slow_down"
    assert answers == [pending, pending, slow, slow, pending, "expired_token"]


async def test_a_refused_device_is_told(site: Any) -> None:
    client_id = await site.register()
    asked = (await site.ask("POST", "/device/authorize", data={"client_id": client_id})).json()
    browser = site.browser()
    page = await browser.go("POST", "/device", data={"user_code": asked["user_code"]})
    assert "not connected" in (await browser.submit(page, "deny")).text
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "client_id": client_id}
    assert (await site.token(device_code=asked["device_code"], **form)).json()["error"] == "access_denied"


async def test_whoever_refuses_goes_back_with_access_denied(site: Any) -> None:
    browser = site.browser()
    page = await browser.go("GET", site.query(await site.register()))
    query = parse_qs(urlsplit((await browser.submit(page, "deny")).headers["location"]).query)
    assert (query["error"], query["state"], query["iss"]) == (["access_denied"], ["client-state"], [URL])


async def test_a_person_whom_no_rule_admits_stays_out_and_learns_no_rule(site: Any) -> None:
    site.configure(rules=[{"domains": ["secret-partner.example"]}])
    back = await site.come_back(await site.register())
    assert back["error"] == "access_denied"
    assert "secret-partner" not in str(back)


async def test_a_person_who_is_not_admitted_any_more_loses_the_login(site: Any) -> None:
    client_id, tokens = await site.signed_in()
    site.configure(rules=[{"emails": ["bob@example.com"]}])
    assert (await site.call(tokens["access_token"])).status_code == 401, "at once, not when the token ends"
    assert (await site.refresh(client_id, tokens["refresh_token"])).json()["error"] == "invalid_grant"
    site.configure()
    assert (await site.refresh(client_id, tokens["refresh_token"])).json()["error"] == "invalid_grant"


async def test_the_provider_is_asked_anew_and_what_it_says_holds(site: Any) -> None:
    site.configure(rules=[{"groups": ["staff"]}])
    site.company.refresh_tokens = True
    site.company.claims = {"groups": ["Staff"]}
    client_id, tokens = await site.signed_in()
    site.clock.at += 1800
    asked = len(site.company.asked)
    tokens = (await site.refresh(client_id, tokens["refresh_token"])).json()
    assert len(site.company.asked) == asked, "not before identity.revalidate is over"
    for replica in (0, 1, 0):
        site.clock.at += 3601
        answer = await site.refresh(client_id, tokens["refresh_token"], replica=replica)
        assert answer.status_code == 200, answer.text
        tokens = answer.json()
    site.clock.at += 3601
    site.company.claims = {"groups": ["Alumni"]}
    assert (await site.refresh(client_id, tokens["refresh_token"])).json()["error"] == "invalid_grant"


async def test_of_all_who_need_the_provider_anew_one_asks_it(site: Any) -> None:
    """Some providers end everything when a refresh token of theirs that was used comes again."""
    site.company.refresh_tokens = True
    client_id, tokens = await site.signed_in()
    site.clock.at += 3601
    asked = site.company.asked.count("https://accounts.example.com/token")
    shared = tokens["refresh_token"]
    answers = await asyncio.gather(*(site.refresh(client_id, shared, replica=n % 2) for n in range(6)))
    assert [answer.status_code for answer in answers] == [200] * 6
    assert site.company.asked.count("https://accounts.example.com/token") == asked + 1


async def test_whoever_claimed_to_ask_and_died_holds_nobody_up_for_long(site: Any) -> None:
    logins = site.servers[0].state.logins
    now = site.clock.at // 30 * 30
    assert await logins.claim_check("login", 1, now=now + 20)
    assert not await logins.claim_check("login", 1, now=now + 21)
    assert not await logins.claim_check("login", 1, now=now + 49)
    assert await logins.claim_check("login", 1, now=now + 50)


async def test_whom_the_provider_has_let_go_of_is_out(site: Any) -> None:
    site.company.refresh_tokens = True
    client_id, tokens = await site.signed_in()
    site.company.live.clear()
    site.clock.at += 3601
    assert (await site.refresh(client_id, tokens["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await site.refresh(client_id, tokens["refresh_token"])).json()["error"] == "invalid_grant"


async def test_where_the_provider_can_not_be_asked_anew_a_login_has_its_end(site: Any) -> None:
    client_id, tokens = await site.signed_in()
    site.clock.at += 86400 - 1
    tokens = (await site.refresh(client_id, tokens["refresh_token"])).json()
    site.clock.at += 1
    assert (await site.refresh(client_id, tokens["refresh_token"])).json()["error"] == "invalid_grant"


async def test_a_revoked_token_ends_the_login_everywhere_and_revocation_is_quiet(site: Any) -> None:
    client_id, tokens = await site.signed_in()
    other = await site.register()
    form = {"token": tokens["refresh_token"], "token_type_hint": "refresh_token"}
    for who, revoked in ((other, False), (client_id, True), (client_id, True)):
        answer = await site.ask("POST", "/token/revoke", data={**form, "client_id": who}, replica=1)
        assert answer.status_code == 200
        refreshed = await site.refresh(client_id, tokens["refresh_token"])
        assert (refreshed.status_code == 400) == revoked
    unknown = await site.ask("POST", "/token/revoke", data={"token": "x", "client_id": client_id})
    assert unknown.status_code == 200


async def test_where_there_is_no_provider_nobody_finds_a_way_in(site: Any) -> None:
    site.settings = site.settings.model_copy(update={"identity": None})
    for path in ("/oauth/authorize", "/.well-known/oauth-authorization-server", "/device"):
        assert (await site.ask("GET", path)).status_code == 404
    assert "authorization_servers" not in (await site.ask("GET", "/.well-known/oauth-protected-resource")).json()
