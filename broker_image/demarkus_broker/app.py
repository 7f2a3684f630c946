"""The broker put together: files, keys, worlds, MCP, HTTP, probes; started, kept up to date, and ended in order.

Content-watched are broker.yaml, the keys directory and the CA bundle; what changes in them holds from the next request
on. Where to listen and where keys, CA and logins lie is read once: a change there is said in the log and waits for a
restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from pathlib import Path

import uvicorn
from cryptography import x509

from demarkus_base import logs, metrics
from demarkus_base.blobs.port import BlobError
from demarkus_base.health import HealthServer, Readiness
from demarkus_base.settings import SettingsError, Watched
from demarkus_broker import keys, settings
from demarkus_broker.front import Front
from demarkus_broker.mcp.server import Gateway
from demarkus_broker.metrics import Metrics
from demarkus_broker.oauth.routes import routes
from demarkus_broker.oauth.service import SignIn, opened
from demarkus_broker.settings import BrokerSettings, HostPort
from demarkus_broker.worlds.pool import WorldPool
from demarkus_broker.worlds.universe import Universe

MOST_CONNECTIONS = 8192
"""HTTP connections at once, idle ones included; on one more every request is answered 503."""
GRACE = 10
"""Seconds for requests under way when the broker ends."""

_Watched = Watched[BrokerSettings] | Watched[keys.Keys] | Watched[bytes]

log = logging.getLogger(__name__)


class StartError(Exception):
    """The broker can't start now; it may later, with the same configuration. The text says why."""


class Broker:
    """A broker that serves. Made by `running`."""

    def __init__(self, path: Path, *, interval: float) -> None:
        """Load everything. Raises SettingsError. `interval`: seconds between two looks at the files."""
        self._settings = Watched(
            [path],
            lambda files: settings.load(next(iter(files.values())), source=str(path)),
            what="broker.yaml",
            on_change=self._settings_changed,
            interval=interval,
        )
        self._start = self._settings.value
        directory, bundle = self._start.keys.directory, self._start.ca_bundle
        self._keys = Watched(
            [directory],
            lambda files: keys.load({Path(name).name: data for name, data in files.items()}, source=str(directory)),
            what="keys",
            interval=interval,
        )
        self._roots = Watched(
            [bundle],
            lambda files: _roots(next(iter(files.values())), source=str(bundle)),
            what="CA bundle",
            on_change=lambda roots: self._adopt(),
            interval=interval,
        )
        self._registry = metrics.new_registry()
        self._metrics = Metrics(self._registry)
        self._pool = WorldPool(metrics=self._metrics)
        self._universe = Universe(keys=lambda: self._keys.value, pool=self._pool, metrics=self._metrics)
        self._sign_in: SignIn | None = None
        self._stopping = False
        self.http = self.health = HostPort("", 0)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[asyncio.Task[None]]:
        """Listen and serve until the block ends; the task given ends only if something is broken.

        Raises StartError, among others for an address that can't be had.
        """
        self._set_log_level()
        self._adopt()
        health = HealthServer(*self._start.listen.health, self._readiness, registry=self._registry)
        async with self._signing_in() as sign_in:
            with _listener(self._start.listen.http) as http:
                server = _Server(_configuration(self._front(sign_in)))
                try:
                    await health.start()
                except OSError as error:
                    raise StartError(f"listen.health: {self._start.listen.health}: {error.strerror}") from error
                self.http = HostPort(*http.getsockname()[:2])
                self.health = HostPort(*health.address)
                work = asyncio.create_task(self._work(server, http, sign_in), name="broker")
                try:
                    await _listening(server, work)
                    log.info("serving", extra={"fields": {"url": self._start.public_url, "http": str(self.http)}})
                    yield work
                finally:
                    self._stopping = True
                    server.should_exit = True
                    await asyncio.wait([work], timeout=GRACE + 5)
                    work.cancel()
                    await asyncio.wait([work])
                    await self._pool.close()
                    await health.close()

    def _front(self, sign_in: SignIn) -> Front:
        gateway = Gateway(
            self._universe,
            version=version("demarkus"),
            metrics=self._metrics,
            profile=lambda: self._settings.value.tools,
        )
        return Front(
            mcp=gateway.sessions.handle_request,
            settings=lambda: self._settings.value,
            keys=lambda: self._keys.value,
            sign_in=routes(sign_in.server),
            can_sign_in=lambda: sign_in.server.is_open,
            lifespan=lambda app: gateway.sessions.run(),
            metrics=self._metrics,
        )

    @contextlib.asynccontextmanager
    async def _signing_in(self) -> AsyncIterator[SignIn]:
        """Signing in, for as long as the broker serves. Raises StartError if the place for logins can't be had."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                self._sign_in = await stack.enter_async_context(
                    opened(
                        start=self._start.state,
                        settings=lambda: self._settings.value,
                        keys=lambda: self._keys.value,
                        metrics=self._metrics,
                    )
                )
            except (BlobError, OSError, ValueError) as error:
                raise StartError(f"state: {error}") from error
            yield self._sign_in

    async def _work(self, server: _Server, http: socket.socket, sign_in: SignIn) -> None:
        watched: list[_Watched] = [self._settings, self._keys, self._roots]
        async with asyncio.TaskGroup() as group:
            watchers = [group.create_task(one.watch()) for one in watched]
            watchers.append(group.create_task(sign_in.work()))
            await server.serve(sockets=[http])
            for watcher in watchers:
                watcher.cancel()

    def _settings_changed(self, new: BrokerSettings) -> None:
        self._set_log_level()
        for name, attribute in (
            ("listen", "listen"),
            ("keys", "keys"),
            ("caBundle", "ca_bundle"),
            ("state", "state"),
        ):
            if getattr(new, attribute) != getattr(self._start, attribute):
                log.warning("a change waits for a restart", extra={"fields": {"field": name}})
        self._adopt()

    def _set_log_level(self) -> None:
        logging.getLogger().setLevel(self._settings.value.log.level.upper())

    def _adopt(self) -> None:
        self._universe.adopt(self._settings.value, self._roots.value)

    def _readiness(self) -> Readiness:
        value = self._settings.value
        watched: dict[str, _Watched] = {"config": self._settings, "keys": self._keys, "caBundle": self._roots}
        details = {
            "name": value.public_url,
            "generation": value.generation,
            "worlds": [world.name for world in value.worlds],
            "listen": {"http": str(self.http), "health": str(self.health)},
            "loaded": {name: one.digest for name, one in watched.items()},
            "errors": {name: one.error for name, one in watched.items() if one.error},
            "version": version("demarkus"),
        }
        reasons = ["stopping"] if self._stopping else []
        if self._sign_in is not None and self._sign_in.problem:
            reasons.append(self._sign_in.problem)
        return Readiness(not reasons, tuple(reasons), details)


@contextlib.asynccontextmanager
async def running(path: Path, *, interval: float = 1.0) -> AsyncIterator[tuple[Broker, asyncio.Task[None]]]:
    """A broker with the configuration file `path`, serving until the block ends. Raises SettingsError, StartError."""
    broker = Broker(path, interval=interval)
    async with broker.serving() as work:
        yield broker, work


def configure_logs(level: str) -> None:
    """JSON lines; the libraries below speak only of what is wrong."""
    logs.configure(level)
    for name in ("mcp", "uvicorn", "quic"):
        logging.getLogger(name).setLevel(logging.WARNING)


class _Server(uvicorn.Server):
    """uvicorn without hands on the process's signals, and with a word when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _configuration(front: Front) -> uvicorn.Config:
    return uvicorn.Config(
        front,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=65,
        timeout_graceful_shutdown=GRACE,
    )


def _listener(address: HostPort) -> socket.socket:
    """A bound TCP socket. Raises StartError."""
    try:
        family, kind, protocol, _, bound = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(bound)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise StartError(f"listen.http: {address}: {error.strerror}") from error
    return listener


def _roots(pem: bytes, *, source: str) -> bytes:
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise SettingsError(f"{source}: expected at least one CA certificate in PEM") from None
    return pem


async def _listening(server: _Server, work: asyncio.Task[None]) -> None:
    """Wait until the server listens; if its work ends before that, raise why."""
    waiting = asyncio.create_task(server.listening.wait())
    try:
        await asyncio.wait([work, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if work.done():
        await work
        raise StartError("the HTTP server ended while it was starting; its log line says why")
