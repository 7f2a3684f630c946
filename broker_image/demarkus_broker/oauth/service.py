"""Signing in as a part of the process: its store and connections, the provider as configured now, the sweep.

A provider that can't be reached is waited for: until it was there once, the gateway is not ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from demarkus_base.blobs.directory import DirectoryBlobs
from demarkus_base.blobs.gcs import SERVICE, Anonymous, GcsBlobs
from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import BlobError, Blobs
from demarkus_broker.keys import Keys
from demarkus_broker.metrics import Metrics
from demarkus_broker.oauth import metadata
from demarkus_broker.oauth.documents import Documents
from demarkus_broker.oauth.outbound import AiohttpOutbound, Outbound
from demarkus_broker.oauth.provider import Provider, ProviderError
from demarkus_broker.oauth.server import AuthorizationServer, State
from demarkus_broker.settings import BrokerSettings, IdentitySettings, StateSettings
from demarkus_broker.state.kubernetes import MOST_LOGINS, SecretBlobs
from demarkus_broker.state.sweep import INTERVAL, MOST, sweep

RETRY = 5.0
"""Seconds between two attempts to reach the provider."""
MAX_SECRET = 4096

log = logging.getLogger(__name__)


class SignIn:
    """Signing in. Made by `opened`."""

    def __init__(
        self,
        *,
        settings: Callable[[], BrokerSettings],
        keys: Callable[[], Keys],
        blobs: Blobs | None,
        outbound: Outbound,
        public: Outbound,
        metrics: Metrics,
    ) -> None:
        """`blobs` None: there is no place for logins, and nobody can sign in. `public` reaches what clients name."""
        self._settings = settings
        self._outbound = outbound
        self._provider: tuple[IdentitySettings, str, Provider] | None = None
        self._reached: IdentitySettings | None = None
        self.server = AuthorizationServer(
            settings=settings,
            keys=keys,
            state=State(blobs or MemoryBlobs(), most=_most(blobs)),
            durable=blobs is not None,
            provider=self._current,
            documents=Documents(public),
            metrics=metrics,
        )

    @property
    def problem(self) -> str | None:
        """Why nobody can sign in yet, though they should."""
        identity = self._settings().identity
        if identity is None or not self.server.durable or self._reached is not None:
            return None
        return "the sign-in provider has not answered yet"

    async def work(self) -> None:
        """Look for the provider and sweep, for ever. The owner runs this as a task and cancels it."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_for_provider())
            group.create_task(self._sweep())

    def _current(self) -> Provider:
        settings = self._settings()
        identity = settings.identity
        if identity is None:
            raise ProviderError("there is no provider")
        if self._provider is None or self._provider[:2] != (identity, settings.public_url):
            provider = Provider(
                identity,
                secret=lambda: asyncio.to_thread(_secret, identity.client_secret_file),
                outbound=self._outbound,
                redirect_uri=settings.public_url + metadata.CALLBACK,
            )
            self._provider = identity, settings.public_url, provider
        return self._provider[2]

    async def _look_for_provider(self) -> None:
        said: str | None = None
        while True:
            identity = self._settings().identity
            if identity is not None and identity is not self._reached:
                try:
                    await self._current().discover()
                except ProviderError as error:
                    if str(error) != said:
                        log.error("sign-in provider", extra={"fields": {"problem": str(error)}})
                    said = str(error)
                else:
                    self._reached, said = identity, None
            await asyncio.sleep(RETRY)

    async def _sweep(self) -> None:
        while True:
            if self.server.durable:
                try:
                    forgotten = await sweep(
                        self.server.state.facts, self.server.state.population, now=self.server.now()
                    )
                    log.debug("swept", extra={"fields": {"forgotten": forgotten}})
                except BlobError as error:
                    log.warning("no sweep", extra={"fields": {"problem": type(error).__name__}})
            await asyncio.sleep(INTERVAL)


@contextlib.asynccontextmanager
async def opened(
    *, start: StateSettings | None, settings: Callable[[], BrokerSettings], keys: Callable[[], Keys], metrics: Metrics
) -> AsyncIterator[SignIn]:
    """Signing in over the store that `start` names, until the block ends. Raises BlobError, OSError, ValueError."""
    async with contextlib.AsyncExitStack() as stack:
        blobs = await _store(start) if start is not None else None
        if blobs is not None:
            stack.push_async_callback(blobs.close)
        outbound, public = AiohttpOutbound(public=False), AiohttpOutbound(public=True)
        stack.push_async_callback(outbound.close)
        stack.push_async_callback(public.close)
        yield SignIn(settings=settings, keys=keys, blobs=blobs, outbound=outbound, public=public, metrics=metrics)


async def _store(state: StateSettings) -> Blobs:
    if state.directory is not None:
        return await DirectoryBlobs.open(state.directory)
    if state.gcs is not None:
        service = state.gcs.service or SERVICE
        anonymous = Anonymous() if service.startswith("http:") else None
        return GcsBlobs.open(state.gcs.url, service=service, authorization=anonymous)
    assert state.kubernetes is not None
    return SecretBlobs.in_cluster(state.kubernetes.namespace, environment=os.environ)


def _most(blobs: Blobs | None) -> Mapping[str, int]:
    """How much there may be: Secrets are for small universes."""
    return {**MOST, "logins": MOST_LOGINS} if isinstance(blobs, SecretBlobs) else MOST


def _secret(path: Path) -> str:
    """The client's secret at the provider. Raises ProviderError."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_SECRET).decode().strip()
    except (OSError, ValueError):
        raise ProviderError(f"identity.clientSecretFile: {path} can't be read") from None
