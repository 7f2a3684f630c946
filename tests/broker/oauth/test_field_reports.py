"""What people's clients really do to gateways: each test carries the number of the report it answers to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from demarkus_broker.oauth.documents import MAX_BYTES, described, freshness, is_document_url
from demarkus_broker.oauth.errors import OAuthError
from demarkus_broker.oauth.outbound import AiohttpOutbound, Answer, OutboundError, PublicResolver, is_public

URL = "https://mark.example.com"
CLIENT = "https://client.example/oauth/client.json"


# F1, F2, F3: client ID metadata documents


async def test_f1_a_client_that_is_a_url_signs_in_without_registering(site: Any) -> None:
    site.web.describe(CLIENT)
    redirect = {"redirect_uri": "http://localhost:49152/callback"}
    back = await site.come_back(CLIENT, **redirect)
    answer = await site.redeem(CLIENT, back["code"], **redirect)
    assert (await site.call(answer.json()["access_token"])).status_code == 200
    assert await site.blobs_under("registrations/") == []


@pytest.mark.parametrize(
    "url",
    [
        "http://client.example/c.json",
        "https://client.example",
        "https://client.example/",
        "https://client.example/c.json#x",
        "https://client.example/c.json?x=1",
        "https://client.example/../c.json",
        "https://client.example/./c.json",
        "https://user@client.example/c.json",
        "https://client.example:8443/c.json",
        "https://localhost/c.json",
        "https://127.0.0.1/c.json",
        "https://[::1]/c.json",
        "https://169.254.169.254/latest/meta-data",
        "https://2130706433/c.json",
        "https://0x7f.1/c.json",
        "https://metadata./c.json",
        "https://client.example\\@evil.example/c.json",
        "https://client.example/" + "c" * 600,
        "file:///etc/passwd",
        "gopher://client.example/c.json",
    ],
)
async def test_f2_an_identifier_that_could_lead_inside_is_never_fetched(site: Any, url: str) -> None:
    assert not is_document_url(url)
    answer = await site.token(grant_type="authorization_code", client_id=url, code="x")
    assert answer.json()["error"] == "invalid_client"
    assert site.web.asked == []


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (404, "application/json", None),
        (302, "application/json", None),
        (200, "text/html", None),
        (200, "application/json", b"["),
        (200, "application/json", b"[]"),
        (200, "application/json", b'{"client_id": "https://client.example/other.json"}'),
        (200, "application/json", b'{"client_id": "%b", "redirect_uris": ["javascript:x"]}' % CLIENT.encode()),
        (200, "application/json", b'{"client_id": "%b"}' % CLIENT.encode()),
        (200, "application/json", b" " * (MAX_BYTES + 1)),
        (
            200,
            "application/json",
            b'{"client_id": "%b", "redirect_uris": ["http://localhost/cb"], "client_secret": "x"}' % CLIENT.encode(),
        ),
    ],
)
def test_f2_a_document_has_to_be_right_in_all(status: int, kind: str, body: bytes | None) -> None:
    good = b'{"client_id": "%b", "redirect_uris": ["http://localhost/cb"]}' % CLIENT.encode()
    assert described(CLIENT, Answer(status=200, headers={"content-type": "application/json"}, body=good)).id == CLIENT
    with pytest.raises(OAuthError):
        described(CLIENT, Answer(status=status, headers={"content-type": kind}, body=good if body is None else body))


async def test_f2_a_document_is_kept_as_its_headers_say_and_its_absence_too(site: Any) -> None:
    documents = site.servers[0].documents
    with pytest.raises(OAuthError, match="invalid_client"):
        await documents.find(CLIENT)
    site.clock.at += 2
    with pytest.raises(OAuthError, match="invalid_client"):
        await documents.find(CLIENT)
    assert len(site.web.asked) == 1, "the absence is remembered"
    site.clock.at += 60
    site.web.describe(CLIENT, headers={"cache-control": "public, max-age=120"})
    await asyncio.gather(*(documents.find(CLIENT) for _ in range(5)))
    site.clock.at += 119
    await documents.find(CLIENT)
    assert len(site.web.asked) == 2
    site.clock.at += 2
    del site.web.answers[CLIENT]
    assert (await documents.find(CLIENT)).id == CLIENT, "a host that is down for a while costs nobody a client"


async def test_f2_one_host_is_not_asked_without_end(site: Any) -> None:
    documents = site.servers[0].documents
    with pytest.raises(OAuthError, match="invalid_client"):
        await documents.find(CLIENT)
    for n in range(50):
        with pytest.raises(OAuthError, match="temporarily_unavailable"):
            await documents.find(f"{CLIENT}/{n}")
    assert len(site.web.asked) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("", 600), ("max-age=5", 60), ("max-age=9999999", 86400), ("no-store", 60), ("private,max-age=300", 300)],
)
def test_f2_how_long_a_document_is_kept_has_bounds(header: str, seconds: int) -> None:
    assert freshness(header) == seconds


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "169.254.169.252", "100.64.0.1",
        "0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "::", "::1", "fe80::1", "fe80::1%eth0",
        "fd00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b::7f00:1",
        "2002:7f00:1::", "2002:a00:1::", "2001:db8::1", "not an address",
    ],
)  # fmt: skip
def test_f2_special_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_f2_public_addresses_are(address: str) -> None:
    assert is_public(address)


class Resolver:
    """Resolves every name to these addresses."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[Any]:
        return [
            {"hostname": host, "host": one, "port": port, "family": 2, "proto": 0, "flags": 0} for one in self.addresses
        ]

    async def close(self) -> None:
        """Nothing to let go of."""


@pytest.mark.parametrize("addresses", [(), ("127.0.0.1",), ("8.8.8.8", "10.0.0.1")])
async def test_f2_a_name_that_leads_inside_is_not_resolved(addresses: tuple[str, ...]) -> None:
    with pytest.raises(OSError, match="not public"):
        await PublicResolver(Resolver(*addresses)).resolve("client.example", 443)  # type: ignore[arg-type]
    assert await PublicResolver(Resolver("8.8.8.8")).resolve("client.example", 443)  # type: ignore[arg-type]


async def test_f2_the_real_client_reaches_nothing_on_this_machine() -> None:
    """The filter sits in the resolution of the connection itself: names of loopback, and addresses, end there."""
    heard: list[Any] = []
    server = await asyncio.start_server(lambda reader, writer: heard.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    outbound = AiohttpOutbound(public=True, timeout=5)
    try:
        for url in (f"https://localhost:{port}/c", f"http://127.0.0.1:{port}/c", "https://localhost.localdomain/c"):
            with pytest.raises(OutboundError):
                await outbound.request("GET", url, headers={})
    finally:
        await outbound.close()
        server.close()
    assert heard == []


async def test_f3_a_described_client_may_listen_on_any_port(site: Any) -> None:
    site.web.describe(CLIENT)
    for port in (1024, 65535):
        page = await site.ask("GET", site.query(CLIENT, redirect_uri=f"http://localhost:{port}/callback"))
        assert page.status_code == 200
    other = await site.ask("GET", site.query(CLIENT, redirect_uri="http://localhost:1024/other"))
    assert other.status_code == 400
    assert "location" not in other.headers


# F4, F5: registration


@pytest.mark.parametrize(
    "uri",
    [
        "https://claude.ai/api/mcp/auth_callback",
        "https://claude.com/api/mcp/auth_callback",
        "https://chatgpt.com/connector_platform_oauth_redirect",
        "https://vscode.dev/redirect",
        "cursor://anysphere.cursor-mcp/oauth/callback",
    ],
)
async def test_f4_hosted_clients_register_the_redirects_they_have(site: Any, uri: str) -> None:
    client_id = await site.register(redirect_uris=[uri])
    assert (await site.come_back(client_id, redirect_uri=uri))["to"] == uri


async def test_f5_a_registration_outlives_the_process(site: Any) -> None:
    client_id = await site.register()
    site.restart()
    assert (await site.come_back(client_id))["code"]


async def test_f5_an_unknown_client_hears_what_makes_it_register_anew(site: Any) -> None:
    gone = "d-1700000000-" + "0" * 32
    answer = await site.refresh(gone, "x")
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    page = await site.ask("GET", site.query(gone))
    assert page.status_code == 400
    assert "invalid_client" in page.text
    assert "location" not in page.headers


# F6 to F10: resource, metadata, preflights


@pytest.mark.parametrize("resource", [URL, f"{URL}/", f"{URL}/mcp", f"{URL}/mcp/", None])
async def test_f6_whatever_way_the_resource_is_written_the_token_is_for_the_gateway(site: Any, resource: Any) -> None:
    client_id = await site.register()
    back = await site.come_back(client_id, resource=resource)
    answer = await site.redeem(client_id, back["code"], resource=resource)
    assert (await site.call(answer.json()["access_token"])).status_code == 200


async def test_f6_another_resource_is_refused_at_every_endpoint(site: Any) -> None:
    client_id, tokens = await site.signed_in()
    evil = "https://evil.example/mcp"
    assert (await site.refresh(client_id, tokens["refresh_token"], resource=evil)).json()["error"] == "invalid_target"
    asked = await site.ask("POST", "/device/authorize", data={"client_id": client_id, "resource": evil})
    assert asked.json()["error"] == "invalid_target"
    assert (await site.refresh(client_id, tokens["refresh_token"])).status_code == 200, "the token was not used up"


async def test_f7_each_metadata_document_names_the_resource_it_belongs_to(site: Any) -> None:
    for suffix in ("", "/mcp"):
        document = (await site.ask("GET", f"/.well-known/oauth-protected-resource{suffix}")).json()
        assert document["resource"] == URL + suffix
        assert document["authorization_servers"] == [URL]
    for path in ("oauth-authorization-server", "oauth-authorization-server/mcp", "openid-configuration"):
        assert (await site.ask("GET", f"/.well-known/{path}")).json()["issuer"] == URL


async def test_f8_the_challenge_leads_to_the_metadata_of_the_resource(site: Any) -> None:
    for headers in ({}, {"Authorization": "Bearer x"}):
        answer = await site.ask("POST", "/mcp", json={}, headers=headers)
        assert answer.status_code == 401
        assert (
            f'resource_metadata="{URL}/.well-known/oauth-protected-resource/mcp"' in answer.headers["www-authenticate"]
        )


@pytest.mark.parametrize(
    "path",
    [
        "/mcp",
        "/register",
        "/token",
        "/device/token",
        "/token/revoke",
        "/device/authorize",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/jwks.json",
    ],
)
async def test_f9_browsers_may_ask_before_they_ask(site: Any, path: str) -> None:
    origin = "http://localhost:6274"
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    answer = await site.ask("OPTIONS", path, headers=headers)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] in ("*", origin)
    assert "Authorization" in answer.headers["access-control-allow-headers"]
    if path == "/mcp":
        exposed = (await site.ask("POST", path, json={}, headers=headers)).headers["access-control-expose-headers"]
        assert {"WWW-Authenticate", "Mcp-Session-Id", "Mcp-Protocol-Version"} <= set(exposed.split(", "))


async def test_f9_pages_for_people_are_not_for_scripts_of_other_sites(site: Any) -> None:
    for path in ("/oauth/authorize", "/oauth/consent", "/device", "/auth/callback"):
        answer = await site.ask("OPTIONS", path, headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in answer.headers


async def test_f10_a_slash_at_the_end_changes_nothing(site: Any) -> None:
    _, tokens = await site.signed_in()
    assert (await site.call(tokens["access_token"], path="/mcp/")).status_code == 200


# F11 to F14: sessions


async def test_f11_processes_that_share_a_token_stay_signed_in_all(site: Any) -> None:
    client_id, tokens = await site.signed_in()
    shared = tokens["refresh_token"]
    answers = await asyncio.gather(*(site.refresh(client_id, shared, replica=n % 2) for n in range(5)))
    assert [answer.status_code for answer in answers] == [200] * 5
    mine = [answer.json()["refresh_token"] for answer in answers]
    assert len(set(mine)) == 5
    site.clock.at += 900
    for n, token in enumerate(mine):
        assert (await site.refresh(client_id, token, replica=n % 2)).status_code == 200


async def test_f11_a_copy_that_is_used_later_ends_the_login_at_every_replica(site: Any) -> None:
    client_id, tokens = await site.signed_in()
    next_ = (await site.refresh(client_id, tokens["refresh_token"])).json()["refresh_token"]
    site.clock.at += 61
    stolen = await site.refresh(client_id, tokens["refresh_token"], replica=1)
    assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
    for replica in (0, 1):
        assert (await site.refresh(client_id, next_, replica=replica)).json()["error"] == "invalid_grant"


async def test_f12_a_provider_that_is_down_looks_like_that_and_the_token_stays_healthy(site: Any) -> None:
    site.company.refresh_tokens = True
    client_id, tokens = await site.signed_in()
    site.clock.at += 3601
    site.company.down = True
    answer = await site.refresh(client_id, tokens["refresh_token"])
    assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert "www-authenticate" not in answer.headers
    site.company.down = False
    assert (await site.refresh(client_id, tokens["refresh_token"])).status_code == 200


async def test_f12_a_provider_that_is_down_at_sign_in_is_told_to_the_client(site: Any) -> None:
    site.company.down = True
    browser = site.browser()
    leave = await browser.submit(await browser.go("GET", site.query(await site.register())))
    assert "error=temporarily_unavailable" in leave.headers["location"]


async def test_f13_a_new_process_knows_all_that_the_old_one_signed(site: Any) -> None:
    client_id, tokens = await site.signed_in()
    browser = site.browser()
    leave = await browser.submit(await browser.go("GET", site.query(client_id)))
    site.restart()
    assert (await site.call(tokens["access_token"])).status_code == 200
    assert (await site.refresh(client_id, tokens["refresh_token"])).status_code == 200
    back = await browser.go("GET", site.company.sign_in(leave.headers["location"]))
    assert "code=" in back.headers["location"]


async def test_f14_a_token_is_good_everywhere_at_once_and_after_minutes(site: Any) -> None:
    _, tokens = await site.signed_in()
    for wait, replica in ((0, 1), (0, 0), (600, 1)):
        site.clock.at += wait
        assert (await site.call(tokens["access_token"], replica=replica)).status_code == 200
