"""Which server, whom to trust, with which credential: the options that all commands share, and a request with them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from mark_protocol.client.client import ClientError, MarkClient, OutcomeUnknown
from mark_protocol.client.patience import PATIENCE, PatientClient
from mark_protocol.client.pool import Pool
from mark_protocol.client.settle import settle
from mark_protocol.client.walk import Refused
from mark_protocol.client.watch import WatchRefused
from mark_protocol.request import Request
from mark_protocol.response import Response
from mark_protocol.transport.port import TransportError, Trust
from mark_protocol.urls import MarkURL, URLError, parse_url

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server with a credential, ready for requests; `json` says how the answer is to be shown."""

    url: MarkURL
    address: tuple[str, int]
    trust: Trust
    token: str | None
    timeout: float
    json: bool

    def request(self, request: Request) -> Response:
        """Send one request and wait for its response. A failure without a response ends the command."""
        return self._run(lambda client: _request(client, request), patience=0.0)

    def run(self, work: Callable[[MarkClient], Coroutine[Any, Any, T]]) -> T:
        """Work that takes several requests. A failure ends the command; so does a refusal that is in its way.

        What the server is too busy for is asked again for a while, and it is said that this takes time.
        """
        return self._run(work, patience=PATIENCE)

    def _run(self, work: Callable[[MarkClient], Coroutine[Any, Any, T]], *, patience: float) -> T:
        try:
            return asyncio.run(self._work(work, patience=patience))
        except (Refused, WatchRefused) as error:
            click.echo(str(error), err=True)
            raise SystemExit(1) from error
        except (ClientError, TransportError) as error:
            raise click.ClickException(str(error)) from error
        except ValueError as error:
            raise click.UsageError(str(error)) from error

    async def _work(self, work: Callable[[MarkClient], Coroutine[Any, Any, T]], *, patience: float) -> T:
        pool = Pool([self.address], server_name=self.url.server_name, trust=self.trust, size=1)
        told = False

        def waiting(seconds: float) -> None:
            nonlocal told
            if not told:
                click.echo(f"note: {self.url.server_name} limits the rate of requests; going on more slowly", err=True)
            told = True

        try:
            return await work(
                PatientClient(pool, auth=self.token, timeout=self.timeout, patience=patience, waiting=waiting)
            )
        finally:
            await pool.close()


async def _request(client: MarkClient, request: Request) -> Response:
    try:
        return await client.request(request)
    except OutcomeUnknown as error:
        raise OutcomeUnknown(f"{error}\n{await _what_is_there(client, request)}") from error


async def _what_is_there(client: MarkClient, write: Request) -> str:
    try:
        done = await settle(client, write)
    except ClientError:
        done = None
    if done is None:
        return "look at the document before writing again"
    return "a look at the server says: it was done" if done else "a look at the server says: it was not done so far"


class _URL(click.ParamType[MarkURL]):
    name = "mark://HOST/PATH"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> MarkURL:
        try:
            return parse_url(str(value))
        except URLError as error:
            self.fail(f"{value}: {error}", param, ctx)


class _HostPort(click.ParamType[tuple[str, int]]):
    name = "HOST:PORT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        try:
            url = parse_url(f"mark://{value}")
        except URLError as error:
            self.fail(f"{value}: {error}", param, ctx)
        return url.host, url.port


def on_a_server(command: Callable[Concatenate[Server, P], None]) -> Callable[..., None]:
    """Give a command the URL argument and the shared options, and call it with the `Server` that they describe."""

    @click.argument("url", type=_URL())
    @click.option("--token", envvar="DEMARKUS_AUTH", help="Credential to send.  [env: DEMARKUS_AUTH]")
    @click.option(
        "--ca",
        envvar="DEMARKUS_CA",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Trust certificates under the roots in this PEM file, instead of the public ones.  [env: DEMARKUS_CA]",
    )
    @click.option("--insecure", is_flag=True, help="Accept any certificate. For servers on your own machine.")
    @click.option("--address", type=_HostPort(), help="Dial here; the certificate still has to be for the URL's host.")
    @click.option(
        "--timeout", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True, help="Seconds."
    )
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @functools.wraps(command)
    def wrapped(
        url: MarkURL,
        token: str | None,
        ca: Path | None,
        insecure: bool,
        address: tuple[str, int] | None,
        timeout: float,
        as_json: bool,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        server = Server(
            url=url,
            address=address or (url.host, url.port),
            trust=Trust(roots=ca.read_bytes() if ca and not insecure else None, insecure=insecure),
            token=token or None,
            timeout=timeout,
            json=as_json,
        )
        command(server, *args, **kwargs)

    return wrapped
