"""The pages of signing in, as plain HTML without scripts. Everything that comes from elsewhere is escaped. Pure."""

from __future__ import annotations

from html import escape

from demarkus_broker.oauth.errors import OAuthError
from demarkus_broker.state.names import USER_CODE_LENGTH


def consent(*, client: str, destination: str, sealed: str, action: str) -> str:
    """Asks whether a client may act for whoever is in front of the browser."""
    return _page(
        "Sign in",
        f"<p><strong>{escape(client)}</strong> wants to use this gateway in your name: to read and write what you may "
        f"read and write. That name is what the program says of itself.</p>"
        f"<p>You will be sent back to <strong>{escape(destination)}</strong>. Go on only if you have just asked for "
        "this.</p>" + _decision(sealed, action),
    )


def device_entry(*, typed: str, action: str, problem: str | None = None) -> str:
    """Asks for the code that a device shows."""
    alert = f'<p role="alert">{escape(problem)}</p>' if problem else ""
    return _page(
        "Connect a device",
        f'{alert}<form method="post" action="{escape(action)}"><p><label for="user_code">The code that your device '
        f'shows</label></p><p><input id="user_code" name="user_code" value="{escape(typed)}" required '
        f'autocomplete="off" autocapitalize="characters" spellcheck="false" maxlength="{USER_CODE_LENGTH * 2}"></p>'
        '<p><button type="submit">Go on</button></p></form>',
    )


def device_consent(*, client: str, code: str, sealed: str, action: str) -> str:
    """Asks whether a device may act for whoever is in front of the browser."""
    return _page(
        "Connect a device",
        f"<p><strong>{escape(client)}</strong> asks from a device that shows the code "
        f"<strong>{escape(code)}</strong>. It wants to use this gateway in your name.</p><p>Go on only if the device "
        "is yours and shows this code. Nobody else has a reason to send you one.</p>" + _decision(sealed, action),
    )


def done(title: str, text: str) -> str:
    """Says that there is nothing more to do here."""
    return _page(title, f"<p>{escape(text)}</p>")


def error(problem: OAuthError) -> str:
    """Says what went wrong, where no client can be told."""
    return _page(
        "That did not work",
        f'<p role="alert">{escape(problem.description[:1].upper() + problem.description[1:])}.</p>'
        f"<p>Begin again in the program that sent you here. Its makers may want to know the code "
        f"<code>{escape(problem.code.value)}</code>.</p>",
    )


def _decision(sealed: str, action: str) -> str:
    return (
        f'<form method="post" action="{escape(action)}"><input type="hidden" name="request" value="{escape(sealed)}">'
        '<p><button type="submit" name="decision" value="allow">Go on and sign in</button> '
        '<button type="submit" name="decision" value="deny">Refuse</button></p></form>'
    )


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><title>{escape(title)} - Demarkus</title></head>'
        f"<body><main><h1>{escape(title)}</h1>{body}</main></body></html>"
    )
