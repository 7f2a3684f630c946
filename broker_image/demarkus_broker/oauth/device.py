"""Devices without a browser (RFC 8628): they ask, somebody types their code and signs in for them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from demarkus_broker.oauth import answers, clients, metadata, pages, parameters, resources, scopes
from demarkus_broker.oauth.authorize import answer_to_question, of_provider, question, to_provider
from demarkus_broker.oauth.pace import INTERVAL
from demarkus_broker.oauth.provider import ProviderError
from demarkus_broker.oauth.seals import Purpose
from demarkus_broker.oauth.server import AuthorizationServer, client_label
from demarkus_broker.state import names

LIFE = 600
"""Seconds for which a device waits."""
CONFIRM = "/device/confirm"


async def authorize(server: AuthorizationServer, request: Request) -> Response:
    """Take a device's request (RFC 8628, 3.1)."""
    form = await answers.form(request)
    given = clients.credentials(request.headers.getlist("authorization"), form)
    client = await server.client(given.id)
    clients.authenticate(client, given)
    resources.check(form.all("resource"), server.issuer)
    scope = scopes.granted(form.get("scope"))
    server.state.take_room("devices")
    device_code, user_code = await server.state.devices.ask(
        {"client_id": client.id, "client_name": client.name, "scope": scope}, expires=int(server.now()) + LIFE
    )
    server.note("device", "asked", client=client_label(client.id))
    shown, page = names.shown(user_code), server.issuer + metadata.DEVICE
    return answers.json_answer(
        {
            "device_code": device_code,
            "user_code": shown,
            "verification_uri": page,
            "verification_uri_complete": f"{page}?user_code={shown}",
            "expires_in": LIFE,
            "interval": INTERVAL,
        }
    )


async def entry(server: AuthorizationServer, request: Request) -> Response:
    """The page for the code, and what was typed there."""
    if request.method == "GET":
        typed = parameters.read(request.scope["query_string"]).get("user_code") or ""
        return answers.page(pages.device_entry(typed=typed[:20], action=metadata.DEVICE))
    if not answers.is_from_our_page(request):
        return _again("", "Type the code in here.", status=403)
    typed = (await answers.form(request)).get("user_code") or ""
    code = names.read_user_code(typed)
    device = await server.state.devices.waiting(code, now=server.now()) if code else None
    if code is None or device is None:
        server.note("device", "unknown-code")
        return _again(typed[:20], "No device waits under this code. It may have expired.", status=400)
    client = device.request["client_name"]
    return question(
        server,
        {"device": device.name, "client": client},
        Purpose.DEVICE,
        lambda sealed: pages.device_consent(client=client, code=names.shown(code), sealed=sealed, action=CONFIRM),
        path=CONFIRM,
        leads_to=(server.provider().origin,),
    )


async def confirm(server: AuthorizationServer, request: Request) -> Response:
    """Take the answer to the question whether the device is theirs. Raises OAuthError."""
    value, allowed = await answer_to_question(server, request, Purpose.DEVICE)
    if allowed:
        try:
            return await to_provider(server, {"device": value["device"]})
        except ProviderError as error:
            raise of_provider(server, error) from None
    await server.state.devices.decide(value["device"], {"allowed": False})
    server.note("device", "refused")
    return answers.page(pages.done("Refused", "The device was not connected. You may close this page."))


def _again(typed: str, problem: str, *, status: int) -> Response:
    return answers.page(pages.device_entry(typed=typed, action=metadata.DEVICE, problem=problem), status=status)
