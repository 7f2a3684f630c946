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
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp
import click

from demarkus_base import logs
from demarkus_base.health import HealthServer, Readiness
from demarkus_base.metrics import new_registry
from demarkus_operator.buckets.google import Google
from demarkus_operator.buckets.port import Buckets
from demarkus_operator.cluster.access import NoAccess, configuration
from demarkus_operator.cluster.kinds import UNIVERSE, WATCHED_CHILDREN, WORLD, Kind
from demarkus_operator.cluster.kubernetes import Kubernetes
from demarkus_operator.cluster.port import NotFound, Port, PortError, TryLater
from demarkus_operator.cluster.pulse import SILENCE, Pulse
from demarkus_operator.cluster.watch import Heard, watch
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.site import API_SERVER_PORT, Images, Site
from demarkus_operator.processes.asked import Asked
from demarkus_operator.processes.pods import in_cluster
from demarkus_operator.reconcile.lease import Lease, LeaseLost
from demarkus_operator.reconcile.loop import Edge
from demarkus_operator.reconcile.metrics import Metrics
from demarkus_operator.reconcile.queue import Queue
from demarkus_operator.reconcile.resync import resync
from demarkus_operator.reconcile.routes import Routes
from demarkus_operator.reconcile.schedule import Schedule
from demarkus_operator.reconcile.survey import Survey, without_managers
from demarkus_operator.reconcile.work import Reconciler
from demarkus_operator.witness.collector import Collector

WORKERS = 4
TRIES = 30
"""Times, a second apart, that an API server which can't answer at the start is asked."""
NONE_AT_ALL = {"demarkus.io/none": ""}
"""Labels that nothing has: a list with them only tells whether there is such a kind, and whether we may list it."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    namespace: str
    watch_namespaces: tuple[str, ...]
    lease: str
    health: tuple[str, int]
    silence: float
    images: Images
    api_server_port: int = API_SERVER_PORT
    google_project: str | None = None


class CannotStart(Exception):
    """Something has to be changed before the operator can run; the message says what."""


class Operator:
    """One operator process."""

    def __init__(self, options: Options, port: Port, buckets: Buckets) -> None:
        self._options = options
        self._port = port
        self._routes = Routes()
        self._registry = new_registry()
        self._metrics = Metrics(self._registry)
        self._leads = False
        self._survey = Survey()
        self._looked = False  # whether a survey was ever completed
        self._held: dict[Ref, tuple[Heard, Manifest, bool]] = {}
        self._missed = asyncio.Event()
        self._pulse = Pulse(clock=time.monotonic, silence=options.silence)
        self._identity = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        site = Site(
            operator_namespace=options.namespace,
            version=importlib.metadata.version("demarkus"),
            images=options.images,
            api_server_port=options.api_server_port,
        )
        edge = Edge(
            port=port,
            site=site,
            now=lambda: datetime.now(UTC),
            random=os.urandom,
            processes=Asked(in_cluster(port)),
            witness=Collector(in_cluster(port)),
            buckets=buckets,
            namespaces=options.watch_namespaces,
            instance=self._identity,
            saw=self._routes.saw,
        )
        work = Reconciler(edge, wake=self._wake, seen=lambda ref: self._survey.take(ref), metrics=self._metrics)
        self._queue: Queue[Ref] = Queue(work, workers=WORKERS, schedule=Schedule(chance=random.random))
        self._metrics.watch_pulse(lambda: max(self._pulse.ages.values(), default=0.0))
        self._metrics.watch_queue(depth=lambda: self._queue.waiting, oldest=lambda: self._queue.oldest)

    async def run(self) -> None:
        """Until a signal. Raises `CannotStart`, `LeaseLost`, or what ended the watch."""
        kinds = await self._check_kinds()
        health = HealthServer(
            *self._options.health, self._readiness, alive=self._pulse.complaints, registry=self._registry
        )
        async with health, self._lease() as lease:
            self._leads = True
            self._metrics.leader.set(1)
            await self._lead(lease, kinds)

    @contextlib.asynccontextmanager
    async def _lease(self) -> AsyncIterator[Lease]:
        lease = Lease(
            self._port,
            namespace=self._options.namespace,
            name=self._options.lease,
            identity=self._identity,
            clock=time.monotonic,
        )
        logger.info("waiting for the lease", extra={"fields": {"identity": self._identity}})
        await lease.acquire()
        logger.info("leading", extra={"fields": {"identity": self._identity}})
        try:
            yield lease
        finally:
            await lease.release()

    async def _lead(self, lease: Lease, kinds: Sequence[Kind]) -> None:
        namespaces = self._options.watch_namespaces
        try:
            async with asyncio.TaskGroup() as group:
                # All of ours begin before kopf: at its end it cancels every task that is younger than itself.
                keeping = group.create_task(lease.keep(), name="lease")
                looking = group.create_task(
                    resync(
                        self._port,
                        namespaces,
                        line=self._queue,
                        begins=self._begin,
                        surveyed=self._surveyed,
                        missed=self._missed,
                    ),
                    name="resync",
                )
                working = group.create_task(self._queue.run(), name="queue")
                await asyncio.sleep(0)
                await watch(
                    namespaces=namespaces,
                    children_kinds=kinds,
                    subjects=self._heard(self._heard_subject),
                    children=self._heard(self._heard_child),
                    pulse=self._pulse,
                    missed=self._missed.set,
                )
                looking.cancel()
                self._queue.stop()
                await working
                keeping.cancel()
        except* Exception as failures:
            raise failures.exceptions[0] from None

    async def _check_kinds(self) -> list[Kind]:
        """The kinds of children that this cluster has. Raises `CannotStart`."""
        try:
            for kind in (UNIVERSE, WORLD):
                if not await self._has(kind):
                    raise CannotStart(f"the API server knows no {kind.kind}; apply crds/ first")
            return [kind for kind in WATCHED_CHILDREN if not kind.optional or await self._has(kind)]
        except PortError as error:
            raise CannotStart(f"can't list Worlds and Universes: {error}") from error

    async def _has(self, kind: Kind) -> bool:
        """Whether the cluster has this kind. Raises `PortError`; a server that is busy or starts is given some time."""
        namespace = next(iter(self._options.watch_namespaces), None)
        for left in reversed(range(TRIES)):
            try:
                await self._port.list(kind.api_version, kind.kind, namespace=namespace, labels=NONE_AT_ALL)
            except NotFound:
                return False
            except TryLater:
                if not left:
                    raise
                await asyncio.sleep(1)
            else:
                break
        return True

    def _begin(self, survey: Survey) -> None:
        self._survey = survey

    def _surveyed(self, survey: Survey) -> list[Ref]:
        self._looked = True
        everybody = self._routes.listed(survey.subjects, survey.versions)
        held, self._held = self._held, {}
        for hear, manifest, gone in held.values():
            hear(manifest, gone)  # now it is known what the survey saw already
        return everybody

    def _heard(self, hear: Heard) -> Heard:
        """Holds what is heard until the first survey is complete: a watch begins with everything there is."""

        def heard(manifest: Manifest, gone: bool) -> None:
            if self._looked:
                hear(manifest, gone)
            else:
                self._held[Ref.of(manifest)] = hear, without_managers(manifest), gone

        return heard

    def _heard_subject(self, subject: Manifest, gone: bool) -> None:
        changed, concerned = self._routes.heard(subject, gone=gone)
        for ref in changed:
            self._survey.forget(ref)
            self._queue.add(ref)
        for ref in concerned:
            self._survey.forget(ref)
            if ref.kind == UNIVERSE.kind:
                self._queue.add_soon(ref)
            else:
                self._queue.add(ref)

    def _heard_child(self, child: Manifest, gone: bool) -> None:
        owner = self._routes.heard_child(child, gone=gone)
        if owner is not None:
            self._wake(owner)

    def _wake(self, ref: Ref) -> None:
        self._survey.forget(ref)
        self._queue.add(ref)

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
        async with Kubernetes(await configuration()) as port, aiohttp.ClientSession() as session:
            await Operator(options, port, Google(session, project=options.google_project)).run()
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
@click.option(
    "--silence",
    type=click.FloatRange(min=1),
    default=SILENCE,
    show_default=True,
    help="Seconds without an event or bookmark of a kind after which /livez is red.",
)
@click.option("--world-image", default=Images().world, show_default=True, help="Image of worlds, without tag.")
@click.option("--broker-image", default=Images().broker, show_default=True, help="Image of gateways, without tag.")
@click.option("--world-digest", default="", help="Digest of the image of worlds of our own version.")
@click.option("--broker-digest", default="", help="Digest of the image of gateways of our own version.")
@click.option("--image-pull-secret", "pull_secrets", multiple=True, help="A Secret to pull those images with.")
@click.option(
    "--api-server-port", default=API_SERVER_PORT, show_default=True, help="Port of the API server's own addresses."
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option(
    "--google-project",
    envvar="GOOGLE_CLOUD_PROJECT",
    show_envvar=True,
    help="The project that buckets are made in; without one none is made.",
)
def main(
    namespace: str,
    watch_namespaces: tuple[str, ...],
    lease: str,
    health: tuple[str, int],
    silence: float,
    world_image: str,
    broker_image: str,
    world_digest: str,
    broker_digest: str,
    pull_secrets: tuple[str, ...],
    api_server_port: int,
    google_project: str | None,
    log_level: str,
) -> None:
    """Runs Worlds and Universes on the cluster that the pod, or KUBECONFIG, leads to."""
    logs.configure(log_level)
    options = Options(
        namespace=namespace,
        watch_namespaces=watch_namespaces,
        lease=lease,
        health=health,
        silence=silence,
        images=Images(
            world=world_image,
            broker=broker_image,
            digests={which: digest for which, digest in (("world", world_digest), ("broker", broker_digest)) if digest},
            pull_secrets=pull_secrets,
        ),
        api_server_port=api_server_port,
        google_project=google_project,
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
