"""`demarkus-operator`: the parts put together.

Wait for the lease; then hear of changes, look at everything from time to time, and let a few workers reconcile, until
a signal comes. Then end what is under way and give the lease back. Losing the lease, or a watch that can't go on, ends
the process with status 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import logging
import os
import random
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from demarkus_base import logs
from demarkus_base.health import HealthServer, Readiness
from demarkus_base.metrics import new_registry
from demarkus_operator.cluster.access import NoAccess, configuration
from demarkus_operator.cluster.kubernetes import Kubernetes
from demarkus_operator.cluster.port import NotFound, Port, PortError
from demarkus_operator.cluster.watch import watch
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.site import Images, Site
from demarkus_operator.processes.asked import Asked
from demarkus_operator.processes.pods import in_cluster
from demarkus_operator.reconcile.lease import Lease, LeaseLost
from demarkus_operator.reconcile.loop import Edge
from demarkus_operator.reconcile.metrics import Metrics
from demarkus_operator.reconcile.queue import Queue
from demarkus_operator.reconcile.resync import listing, resync
from demarkus_operator.reconcile.routes import Routes, owner_of
from demarkus_operator.reconcile.schedule import Schedule
from demarkus_operator.reconcile.work import Reconciler
from demarkus_operator.witness.collector import Collector

WORKERS = 4

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    namespace: str
    watch_namespaces: tuple[str, ...]
    lease: str
    health: tuple[str, int]
    images: Images


class CannotStart(Exception):
    """Something has to be changed before the operator can run; the message says what."""


class Operator:
    """One operator process."""

    def __init__(self, options: Options, port: Port) -> None:
        self._options = options
        self._port = port
        self._routes = Routes()
        self._registry = new_registry()
        self._metrics = Metrics(self._registry)
        self._leads = False
        site = Site(
            operator_namespace=options.namespace,
            version=importlib.metadata.version("demarkus"),
            images=options.images,
        )
        edge = Edge(
            port=port,
            site=site,
            now=lambda: datetime.now(UTC),
            random=os.urandom,
            processes=Asked(in_cluster(port)),
            witness=Collector(in_cluster(port)),
            namespaces=options.watch_namespaces,
        )
        work = Reconciler(edge, changed=self._changed, metrics=self._metrics)
        self._queue: Queue[Ref] = Queue(work, workers=WORKERS, schedule=Schedule(chance=random.random))
        self._metrics.watch_queue(depth=lambda: self._queue.waiting, oldest=lambda: self._queue.oldest)

    async def run(self) -> None:
        """Until a signal. Raises `CannotStart`, `LeaseLost`, or what ended the watch."""
        await self._check_kinds()
        health = HealthServer(*self._options.health, self._readiness, registry=self._registry)
        async with health, self._lease() as lease:
            self._leads = True
            self._metrics.leader.set(1)
            await self._lead(lease)

    @contextlib.asynccontextmanager
    async def _lease(self) -> AsyncIterator[Lease]:
        identity = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        lease = Lease(
            self._port,
            namespace=self._options.namespace,
            name=self._options.lease,
            identity=identity,
            clock=time.monotonic,
        )
        logger.info("waiting for the lease", extra={"fields": {"identity": identity}})
        await lease.acquire()
        logger.info("leading", extra={"fields": {"identity": identity}})
        try:
            yield lease
        finally:
            await lease.release()

    async def _lead(self, lease: Lease) -> None:
        namespaces = self._options.watch_namespaces
        try:
            async with asyncio.TaskGroup() as group:
                # All of ours begin before kopf: at its end it cancels every task that is younger than itself.
                keeping = group.create_task(lease.keep(), name="lease")
                looking = group.create_task(
                    resync(self._port, namespaces, listed=self._routes.listed, add=self._queue.add), name="resync"
                )
                working = group.create_task(self._queue.run(), name="queue")
                await asyncio.sleep(0)
                await watch(namespaces=namespaces, subjects=self._heard_subject, children=self._heard_child)
                looking.cancel()
                self._queue.stop()
                await working
                keeping.cancel()
        except* Exception as failures:
            raise failures.exceptions[0] from None

    async def _check_kinds(self) -> None:
        try:
            await listing(self._port, self._options.watch_namespaces)
        except NotFound as error:
            raise CannotStart(f"the API server knows no World or Universe; apply crds/ first ({error})") from error
        except PortError as error:
            raise CannotStart(f"can't list Worlds and Universes: {error}") from error

    def _heard_subject(self, subject: Manifest, gone: bool) -> None:
        for ref in self._routes.heard(subject, gone=gone):
            self._queue.add(ref)

    def _heard_child(self, child: Manifest, gone: bool) -> None:
        owner = owner_of(child)
        if owner is not None:
            self._queue.add(owner)

    def _changed(self, ref: Ref) -> None:
        """The reconcile of a Universe made something that its Worlds may have waited for."""
        for world in self._routes.worlds_of(ref):
            self._queue.add(world)

    def _readiness(self) -> Readiness:
        return Readiness(ready=True, details={"leads": self._leads})


async def serve(options: Options) -> None:
    """Runs an operator until a signal. Raises `CannotStart`, `LeaseLost`, or what ended the watch."""
    task = asyncio.current_task()
    assert task is not None
    # Until kopf takes the signals over, there is nothing to finish.
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        async with Kubernetes(await configuration()) as port:
            await Operator(options, port).run()
    except NoAccess as error:
        raise CannotStart(str(error)) from error


def _address(_: click.Context, __: click.Parameter, value: str) -> tuple[str, int]:
    host, _colon, port = value.rpartition(":")
    if not host or not port.isdigit():
        raise click.BadParameter("expected HOST:PORT")
    return host.strip("[]"), int(port)


@click.command()
@click.option("--namespace", envvar="POD_NAMESPACE", required=True, help="The operator's own namespace.")
@click.option("--watch-namespace", "watch_namespaces", multiple=True, help="Look after this namespace; default: all.")
@click.option("--lease", default="demarkus-operator", show_default=True, help="The Lease that the acting one holds.")
@click.option("--health", default="0.0.0.0:8081", show_default=True, callback=_address, help="Probes and metrics.")
@click.option("--world-image", default=Images().world, show_default=True, help="Image of worlds, without tag.")
@click.option("--broker-image", default=Images().broker, show_default=True, help="Image of gateways, without tag.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def main(
    namespace: str,
    watch_namespaces: tuple[str, ...],
    lease: str,
    health: tuple[str, int],
    world_image: str,
    broker_image: str,
    log_level: str,
) -> None:
    """Runs Worlds and Universes on the cluster that the pod, or KUBECONFIG, leads to."""
    logs.configure(log_level)
    options = Options(
        namespace=namespace,
        watch_namespaces=watch_namespaces,
        lease=lease,
        health=health,
        images=Images(world=world_image, broker=broker_image),
    )
    try:
        asyncio.run(serve(options))
    except asyncio.CancelledError:
        return  # a signal before we led
    except (CannotStart, LeaseLost) as error:
        logger.error("ending", extra={"fields": {"error": str(error)}})
        sys.exit(1)
    except Exception:
        logger.exception("ending")
        sys.exit(1)
