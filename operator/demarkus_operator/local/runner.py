"""A universe on one machine: the operator's own reconcilers over a folder, and processes in place of pods.

`Runner` puts the parts together as `main.py` does in a cluster: every change of an object wakes the reconcilers it
concerns and lets the processes follow; every change of a process is written into a workload's status, which is a
change again. It ends when nothing changes any more, and goes on when something does.

It also does the two things that a cluster's people do elsewhere: it signs the bearer of the person at this machine, and
lays the certificate authorities together for `mark --ca`.
"""

from __future__ import annotations

import asyncio
import base64
import importlib.metadata
import logging
import os
import random
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from demarkus_operator.cluster.kinds import UNIVERSE, WATCHED_CHILDREN, WORLD
from demarkus_operator.cluster.port import NotFound
from demarkus_operator.local import bearer, declared
from demarkus_operator.local.manifests import Document
from demarkus_operator.local.pods import Pods, PodState
from demarkus_operator.local.processes import Pace
from demarkus_operator.local.report import Report, report
from demarkus_operator.local.state import StateFolder, keep, write_durably
from demarkus_operator.local.store import FileStore
from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.site import Site
from demarkus_operator.processes.asked import Asked
from demarkus_operator.reconcile.loop import Edge
from demarkus_operator.reconcile.queue import Queue
from demarkus_operator.reconcile.resync import resync
from demarkus_operator.reconcile.routes import Routes, owner_of
from demarkus_operator.reconcile.schedule import Schedule
from demarkus_operator.reconcile.survey import Survey
from demarkus_operator.reconcile.work import Reconciler
from demarkus_operator.witness.collector import Collector

OPERATOR_NAMESPACE = "demarkus-system"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

RENEWALS = 60.0
"""Seconds between looks at the age of the bearer."""
WHILE_BUSY = 0.1
"""Seconds after which to look again while reconcilers work: one that ends without a change makes no news."""

_HEARD_OF = frozenset((kind.api_version, kind.kind) for kind in WATCHED_CHILDREN)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a runner needs of the machine: the clock in UTC, where commands are found, what processes inherit."""

    now: Callable[[], datetime]
    find_program: Callable[[str], str]
    environment: Mapping[str, str]
    pace: Pace | None = None


class Runner:
    """One universe. The caller holds the state folder's lock."""

    def __init__(
        self,
        folder: StateFolder,
        surroundings: Surroundings,
        *,
        person: str | None,
        tell: Callable[[Report], None],
    ) -> None:
        """`person`: the e-mail address that the bearer names, if it was given. `tell` gets every new report."""
        self._folder = folder
        self._surroundings = surroundings
        self._person = person
        self._tell = tell
        self._told: Report | None = None
        self._signed: bearer.Signed | None = None
        self._news = asyncio.Event()
        self._routes = Routes()
        self._queue: Queue[Ref] | None = None

    async def run(self, documents: Sequence[Document], *, stop: asyncio.Event, hurry: asyncio.Event) -> None:
        """Realise what is declared until `stop`; no process is left when this returns, which `hurry` can speed up.

        Raises ManifestError before anything is changed, and StateDamaged.
        """
        store = await FileStore.open(
            self._folder.objects,
            now=self._surroundings.now,
            new_uid=lambda: str(uuid.uuid4()),
            changed=self._changed,
        )
        wanted = declared.judged(documents, before=await declared.subjects(store))
        for ref in await declared.bring_in(store, wanted):
            logger.info("deleted", extra={"fields": {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name}})
        pods = Pods(
            store=store,
            folder=self._folder,
            find_program=self._surroundings.find_program,
            environment=self._surroundings.environment,
            changed=self._news.set,
            hurry=hurry,
            pace=self._surroundings.pace,
        )
        queue = self._queue = self._make_queue(store, pods)
        for ref in self._routes.listed((await declared.subjects(store)).values()):
            queue.add(ref)
        working = asyncio.create_task(queue.run(), name="queue")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        looking = asyncio.create_task(resync(store, (), line=queue, surveyed=self._surveyed), name="resync")
        try:
            while not (stop.is_set() or working.done()):
                quiet = await self._follow(store, pods, queue)
                await self._wait(working, stopping, seconds=RENEWALS if quiet else WHILE_BUSY)
        finally:
            stopping.cancel()
            looking.cancel()
            queue.stop()
            try:
                await asyncio.gather(looking, return_exceptions=True)
                await working
            finally:
                await pods.close()

    def _make_queue(self, store: FileStore, pods: Pods) -> Queue[Ref]:
        site = Site(
            operator_namespace=OPERATOR_NAMESPACE,
            version=importlib.metadata.version("demarkus"),
            extra_tls_names=LOOPBACK_NAMES,
        )
        edge = Edge(
            port=store,
            site=site,
            now=self._surroundings.now,
            random=os.urandom,
            processes=Asked(pods.places),
            witness=Collector(pods.places),
        )
        work = Reconciler(edge, wake=self._wake)
        return Queue(work, workers=1, schedule=Schedule(chance=random.random))

    async def _follow(self, store: FileStore, pods: Pods, queue: Queue[Ref]) -> bool:
        """Let processes, files and the report follow what is stored. Whether the reconcilers have nothing in hand."""
        self._news.clear()
        await pods.sync()
        subjects = await declared.subjects(store)
        states = pods.states()
        universe = next((found for ref, found in subjects.items() if ref.kind == UNIVERSE.kind), None)
        worlds = [found for ref, found in subjects.items() if ref.kind == WORLD.kind]
        await self._trust(store, worlds)
        person = await self._sign(store, universe, worlds, _gateway(universe, states))
        quiet = queue.idle and not self._news.is_set()
        new = report(subjects.values(), states, pid=os.getpid(), person=person, quiet=quiet)
        if new != self._told:
            self._told = new
            self._tell(new)  # first, so that whoever reads the file has seen the lines
            await asyncio.to_thread(write_durably, self._folder.status, new.to_json().encode())
        return quiet

    async def _wait(self, *ends: asyncio.Task[object], seconds: float) -> None:
        """Until there is news, an end, or the time is over."""
        news = asyncio.create_task(self._news.wait())
        try:
            await asyncio.wait([news, *ends], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()

    async def _trust(self, store: FileStore, worlds: Sequence[Manifest]) -> None:
        """Keep `ca.crt`: the authorities of all Worlds, each once."""
        found: dict[bytes, None] = {}
        for world in worlds:
            names = WorldNames(world["metadata"]["namespace"], world["metadata"]["name"])
            try:
                certificate = await store.get(names.certificate)
            except NotFound:
                continue
            found[base64.b64decode(certificate["data"]["ca.crt"])] = None
        await asyncio.to_thread(keep, self._folder.trust, b"".join(found))

    async def _sign(
        self, store: FileStore, universe: Manifest | None, worlds: Sequence[Manifest], url: str | None
    ) -> str:
        """Keep the file `bearer` valid; whom it names, empty if there is no gateway."""
        if universe is None or url is None:
            await asyncio.to_thread(self._folder.bearer.unlink, missing_ok=True)
            self._signed = None
            return ""
        names = UniverseNames(universe["metadata"]["namespace"], universe["metadata"]["name"])
        key = bearer.signing_key(await store.get(names.keys))
        person = self._person or bearer.first_writer(worlds) or bearer.NOBODY
        now = self._surroundings.now()
        wanted = bearer.Signed(email=person, public_url=url, kid=key.kid, at=now)
        if self._signed is None or not self._signed.stands_for(wanted):
            text = bearer.sign(email=person, public_url=url, key=key, now=now)
            await asyncio.to_thread(write_durably, self._folder.bearer, f"{text}\n".encode())
            self._signed = wanted
        return person

    def _changed(self, manifest: Manifest, *, gone: bool) -> None:
        """An object was written: who is concerned looks at it, and the processes follow."""
        self._news.set()
        if self._queue is None:
            return  # still declaring; everything is listed before the first reconcile
        ref = Ref.of(manifest)
        if ref.kind in (WORLD.kind, UNIVERSE.kind):
            concerned = [one for group in self._routes.heard(manifest, gone=gone) for one in group]
        elif (ref.api_version, ref.kind) in _HEARD_OF and (owner := owner_of(manifest)) is not None:
            concerned = [owner]
        else:
            concerned = []
        for one in concerned:
            self._queue.add(one)

    def _surveyed(self, survey: Survey) -> list[Ref]:
        return self._routes.listed(survey.subjects, survey.versions)

    def _wake(self, ref: Ref) -> None:
        """A reconcile made something that this one may have waited for."""
        if self._queue is not None:
            self._queue.add(ref)


def _gateway(universe: Manifest | None, states: Iterable[PodState]) -> str | None:
    """The URL in the gateway's own configuration; None while there is none."""
    if universe is None:
        return None
    workload = UniverseNames(universe["metadata"]["namespace"], universe["metadata"]["name"]).deployment
    address = next((pod.listen.get("http") for pod in states if pod.workload == workload), None)
    return f"http://{address}" if address else None
