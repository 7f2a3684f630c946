"""The composition root: one world, from its configuration file to an orderly end.

Order of the start: files, probes, store, engine, UDP socket. Probes answer from the first moment, so that a long
replay of the log is seen as "not ready" and not as dead. Order of the end: no new connection, running requests are
answered, connections are closed, the engine and the store let go.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import importlib.metadata
import logging
import secrets
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from demarkus_base.health import HealthServer, Readiness
from demarkus_world import control, lag
from demarkus_world.admission import Admission, RateLimiter
from demarkus_world.engine import retry
from demarkus_world.engine.engine import Engine, EngineError, Identity, StoreForeign, StoreLost, Unavailable
from demarkus_world.engine.scrub import Scrub
from demarkus_world.engine.sweep import Sweeper
from demarkus_world.housekeeping import Housekeeping
from demarkus_world.management import ManagementServer
from demarkus_world.metrics import Metrics
from demarkus_world.proposals import expire
from demarkus_world.seeds import sow
from demarkus_world.service import Service
from demarkus_world.settings import HistoryMode, HostPort, RetentionKey, Settings
from demarkus_world.sources import Sources
from demarkus_world.stores import Store, open_store, view_folder
from mark_protocol.transport import listen
from mark_protocol.transport.port import Certificate, Limits, Listener, TransportError

T = TypeVar("T")

logger = logging.getLogger(__name__)

GRACE = 10.0
"""Seconds that running requests get to end in."""

PROBE = 5.0
"""Seconds between two looks at a bucket that are made also when nobody asks."""

EXPIRY = 3600.0
"""Seconds between two looks for proposals that have waited too long."""

AGAIN = 60.0
"""Seconds until what the store did not take is written again."""

LOOK = 1.0
"""Seconds between two looks at what may fail on its own."""


class CannotServe(Exception):
    """The world can't start or go on; the text says what is in the way. Starting it again may help."""


class World:
    """One world. `run` serves it; `readiness` may be asked at any time."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._metrics = Metrics()
        rate = sources.settings.limits.rate
        self._limiter = RateLimiter(per_second=rate.per_second, burst=rate.burst)
        self._admission = Admission(self._limiter)
        self._health: HealthServer | None = None
        self._listener: Listener | None = None
        self._management: ManagementServer | None = None
        self._store: Store | None = None
        self._engine: Engine | None = None
        self._obstacle: str | None = "the store is being opened"
        self._changed = asyncio.Event()
        sources.on_settings = self._apply
        sources.on_certificate = self._use_certificate

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until `stop` is set. Raises CannotServe, and what store and engine raise when they can't be opened."""
        settings = self._sources.settings
        async with AsyncExitStack() as stack:
            self._health = await self._start_probes(settings, stack)
            store = self._store = await open_store(settings.store, self._metrics)
            stack.push_async_callback(store.blobs.close)
            store.view = stack.enter_context(view_folder(settings))
            engine = self._engine = await _unless_stopped(stop, self._open_engine(settings, store))
            if engine is None:
                return
            stack.push_async_callback(engine.close)
            # A store that exists keeps its incarnation, whatever the configuration says.
            self._sources.bind(f"{engine.identity.history}/{engine.identity.incarnation}")
            service = Service(
                engine=engine,
                admission=self._admission,
                rules=lambda: self._sources.rules,
                request_timeout=lambda: self._sources.settings.limits.request_timeout,
                compatible=settings.history is HistoryMode.COMPATIBLE,
                ignore_retention=lambda: self._sources.settings.retention.key is RetentionKey.IGNORE,
                metrics=self._metrics,
                max_streams=settings.limits.max_streams,
                max_watches=lambda: self._sources.settings.limits.max_watches,
            )
            stack.push_async_callback(service.finish)
            listener = self._listener = await self._listen(settings, service)
            stack.push_async_callback(listener.close, grace=GRACE)
            # First of all: the listener waits for running answers, and a watch ends only when it is told to.
            stack.callback(service.watches.close)
            service.answer_through(listener)
            if settings.management_keys is not None:
                self._management = await self._start_management(settings, engine, stack)
            sweeper = Sweeper(
                store.blobs,
                engine,
                now=_now,
                grace=lambda: int(self._sources.settings.retention.grace * 1000),
                rules=lambda: self._sources.settings.rules,
            )
            if settings.store.directory is not None:
                await _listen_to_commands(settings.store.directory, Housekeeping(engine, sweeper), store, stack)
            self._obstacle = None
            # What is there now stays: nobody need look again and again whether it is garbage, while handshakes wait.
            gc.collect()
            gc.freeze()
            logger.info("serving", extra={"fields": self._facts()})
            try:
                await self._until(stop, engine, listener, store, sweeper, service)
            finally:
                self._obstacle = "shutting down"
                logger.info("shutting down")
        logger.info("stopped")

    def readiness(self) -> Readiness:
        """Red only for reasons of this process; a broken file on disk is told and stays green."""
        return Readiness(
            ready=self._obstacle is None,
            reasons=(self._obstacle,) if self._obstacle else (),
            details={**self._facts(), "reloadErrors": self._sources.errors},
        )

    def _facts(self) -> dict[str, Any]:
        settings = self._sources.settings
        facts: dict[str, Any] = {
            "name": settings.name,
            "history": settings.identity.history,
            "incarnation": settings.identity.incarnation,
            "loaded": self._sources.digests,
            "tokenUses": dict(self._sources.token_uses),
            "version": importlib.metadata.version("demarkus"),
        }
        if self._store is not None and self._store.observed is not None:
            facts["store"] = {"reachable": self._store.problem is None}
            if self._store.problem is not None:
                facts["store"]["problem"] = self._store.problem
        if self._store is not None and self._store.reserve is not None and self._engine is not None:
            facts["store"] = {"full": self._engine.full}
        if self._engine is not None:
            facts |= {"incarnation": self._engine.identity.incarnation, "sequence": self._engine.statistics.sequence}
            facts["scrub"] = self._engine.scrubbed.facts()
        if self._health is not None and self._listener is not None:
            addresses = {"mark": self._listener.address, "health": self._health.address}
            if self._management is not None:
                addresses["management"] = self._management.address
            facts["engine"] = self._listener.engine
            facts["listen"] = {name: str(HostPort(*address)) for name, address in addresses.items()}
        return facts

    async def _open_engine(self, settings: Settings, store: Store) -> Engine:
        """The engine; a bucket that does not answer is asked again for as long as it takes.

        Where a store is expected and is not there, nothing is served until the configuration says something else.
        """
        attempt = 1
        while True:
            settings = self._sources.settings
            try:
                return await self._try_to_open_engine(settings, store)
            except (StoreLost, StoreForeign) as error:
                if settings.expect is None:
                    raise
                self._obstacle = f"{type(error).__name__}: {error}"
                logger.error("nothing is served: %s", self._obstacle)
                await self._another_configuration()
                self._obstacle, attempt = "the store is being opened", 1
                continue
            except Unavailable as error:
                if store.observed is None:
                    raise
                self._obstacle = f"the store can't be reached: {error}"
                logger.warning("the store can't be reached, asking again: %s", error)
            await asyncio.sleep(retry.pause_before(attempt))
            attempt += 1

    async def _try_to_open_engine(self, settings: Settings, store: Store) -> Engine:
        return await Engine.open(
            store.blobs,
            Identity(settings.identity.history, settings.identity.incarnation),
            now=_now,
            random=secrets.token_bytes,
            compatible=settings.history is HistoryMode.COMPATIBLE,
            key=self._sources.world_key,
            view=store.view,
            rules=lambda: self._sources.settings.rules,
            reserve=store.reserve,
            expected=settings.expected,
        )

    async def _another_configuration(self) -> None:
        self._changed.clear()
        watching = asyncio.create_task(self._sources.watch(), name="sources")
        waiting = asyncio.create_task(self._changed.wait(), name="another configuration")
        try:
            await asyncio.wait({watching, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (watching, waiting):
                task.cancel()
            await asyncio.gather(watching, waiting, return_exceptions=True)

    async def _start_probes(self, settings: Settings, stack: AsyncExitStack) -> HealthServer:
        where = settings.listen.health
        server = HealthServer(where.host, where.port, self.readiness, registry=self._metrics.registry)
        try:
            return await stack.enter_async_context(server)
        except OSError as error:
            raise CannotServe(f"listen.health: can't listen on TCP {where}: {error.strerror or error}") from None

    async def _start_management(self, settings: Settings, engine: Engine, stack: AsyncExitStack) -> ManagementServer:
        where = settings.listen.management
        try:
            server = ManagementServer(
                where, tls=settings.tls, keys=lambda: self._sources.management_keys, engine=engine
            )
            return await stack.enter_async_context(server)
        except OSError as error:
            raise CannotServe(f"listen.management: can't listen on TCP {where}: {error.strerror or error}") from None

    async def _listen(self, settings: Settings, service: Service) -> Listener:
        where = settings.listen.mark
        ours = settings.limits
        limits = Limits(
            max_streams=ours.max_streams, request_timeout=ours.request_timeout, idle_timeout=ours.idle_timeout
        )
        try:
            return await listen(
                where.host, where.port, certificates=[self._sources.certificate], limits=limits, handler=service
            )
        except TransportError as error:
            raise CannotServe(f"listen.mark: {error}") from None

    def _apply(self, settings: Settings) -> None:
        rate = settings.limits.rate
        self._limiter.set_rate(per_second=rate.per_second, burst=rate.burst)
        logging.getLogger().setLevel(settings.log.level.upper())
        self._changed.set()

    def _use_certificate(self, certificate: Certificate) -> None:
        if self._listener is not None:
            self._listener.reload([certificate])
        if self._management is not None:
            try:
                self._management.reload()
            except OSError as error:
                logger.error("the management port keeps its certificate: %s", error)

    async def _until(
        self,
        stop: asyncio.Event,
        engine: Engine,
        listener: Listener,
        store: Store,
        sweeper: Sweeper,
        service: Service,
    ) -> None:
        """Returns when asked to stop; raises when a watcher fails or the store gives up."""
        tasks = [
            asyncio.create_task(work, name=name)
            for name, work in (
                ("stop", stop.wait()),
                ("sources", self._sources.watch()),
                ("observe", self._observe(engine, listener)),
                ("probe", _probe(engine, store)),
                ("watches", service.watches.run()),
                ("lag", lag.measure(self._metrics.loop_lag.observe)),
                ("sweeps", sweeper.keep_sweeping()),
                ("scrub", _scrub(engine).run()),
                ("seeds", self._keep_sown(engine)),
                ("proposals", _expire(engine)),
            )
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    async def _keep_sown(self, engine: Engine) -> None:
        """Writes what the configuration says into the world, at the start and whenever that changes."""
        while True:
            self._changed.clear()
            again = None
            try:
                await sow(engine, self._sources.settings)
            except EngineError as error:
                logger.error("what the configuration says of documents is not written yet: %s", error)
                again = AGAIN
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), timeout=again)

    async def _observe(self, engine: Engine, listener: Listener) -> None:
        """Keeps the gauges current. Raises CannotServe when the store has to be opened anew."""
        failing = self._metrics.reload_failing
        while True:
            if engine.fault is not None:
                raise CannotServe(f"nothing can be written until the store is opened anew: {engine.fault}")
            self._metrics.store_full.set(engine.full)
            self._metrics.sequence.set(engine.statistics.sequence)
            self._metrics.verified_through.set(engine.scrubbed.verified_through)
            self._metrics.damaged.set(len(engine.scrubbed.damage))
            self._metrics.connections.set(listener.stats().open)
            self._metrics.under_way.set(self._admission.under_way)
            self._metrics.loaded.info(self._sources.digests)
            for what in self._sources.digests:
                failing.labels(what).set(what in self._sources.errors)
            await asyncio.sleep(LOOK)


def _scrub(engine: Engine) -> Scrub:
    return Scrub(
        view=lambda: engine.view(exact=True),
        entries=engine.entries_from,
        recheck=engine.recheck,
        scrubbed=engine.scrubbed,
        clock=time.monotonic,
        kept=engine.progress,
    )


async def _probe(engine: Engine, store: Store) -> None:
    """Looks at a bucket now and then, so that an idle world knows whether it answers, and what others wrote."""
    while True:
        await asyncio.sleep(PROBE)
        if store.observed is not None:
            with contextlib.suppress(EngineError):
                await engine.view(exact=True)


async def _expire(engine: Engine) -> None:
    """Closes proposals that nobody decided in time."""
    while True:
        try:
            closed = await expire(engine, now=_now())
            if closed:
                logger.info("%d proposals have expired", closed)
        except EngineError as error:
            logger.error("proposals are not closed yet: %s", error)
        await asyncio.sleep(EXPIRY)


async def _listen_to_commands(mount: Path, housekeeping: Housekeeping, store: Store, stack: AsyncExitStack) -> None:
    try:
        await stack.enter_async_context(control.listening(mount, housekeeping.carry_out))
    except OSError as error:
        # Commands may be what makes room on a full volume.
        if store.reserve is None or not store.reserve.held or error.errno != errno.ENOSPC:
            logger.error("no commands are taken: %s", error)
            return
        await store.reserve.release()
        await _listen_to_commands(mount, housekeeping, store, stack)


def _now() -> int:
    return time.time_ns() // 1_000_000


async def _unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of a long work, or None, and the work is cancelled, if `stop` is set before it ends."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
