"""Worlds as real processes on loopback with the files that the plan gives their pods, and the operator's loop over
them: what a cluster does for a StatefulSet is done by the local runner's pods.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from demarkus_operator.cluster.port import NotFound
from demarkus_operator.local.objects import Objects
from demarkus_operator.local.pods import Pods
from demarkus_operator.local.state import StateFolder
from demarkus_operator.plan.names import WorldNames, witness_record
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.plan.site import Site
from demarkus_operator.plan.witness import Record, read
from demarkus_operator.processes.asked import Asked
from demarkus_operator.reconcile.concern import concern_of
from demarkus_operator.reconcile.loop import Edge, Outcome, reconcile
from demarkus_operator.reconcile.world import world_ref
from demarkus_operator.witness.collector import Collector
from mark_protocol.client.client import MarkClient
from mark_protocol.client.pool import Pool
from mark_protocol.transport.port import Trust

BUDGET = 60.0
OPERATOR_NAMESPACE = "demarkus-system"


async def eventually(what: str, probe: Callable[[], Awaitable[Any]]) -> Any:
    """What `probe` gives once that is true. Fails naming what was waited for, and what was seen last."""
    deadline = time.monotonic() + BUDGET
    while not (seen := await probe()):
        assert time.monotonic() < deadline, f"waited {BUDGET:.0f} s for: {what}; last seen: {seen!r}"
        await asyncio.sleep(0.05)
    return seen


@dataclass
class RealWorlds:
    """Worlds of the namespace acme. They are asked for proof with every look."""

    folder: Path
    objects: dict[Ref, Manifest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state = StateFolder.at(self.folder)
        self.state.make()
        self.port = Objects(
            self.objects, now=self.now, new_uid=lambda: str(uuid.uuid4()), changed=lambda _, *, gone: None
        )
        self.pods = Pods(
            store=self.port,  # type: ignore[arg-type]  # all that is asked of it is a port
            folder=self.state,
            find_program=lambda name: str(Path(sys.executable).parent / name),
            environment=os.environ,
            changed=lambda: None,
            hurry=asyncio.Event(),
        )
        self.edge = Edge(
            port=self.port,
            site=Site(
                operator_namespace=OPERATOR_NAMESPACE, version="0.1.0", extra_tls_names=("localhost", "127.0.0.1")
            ),
            now=self.now,
            random=os.urandom,
            processes=Asked(self.pods.places),
            witness=Collector(self.pods.places, every=timedelta(), again=timedelta()),
        )

    def now(self) -> datetime:
        return datetime.now(UTC)

    def _address(self, ref: Ref, listener: str) -> str | None:
        workload = WorldNames(ref.namespace, ref.name).stateful_set
        return next((pod.listen.get(listener) for pod in self.pods.states() if pod.workload == workload), None)

    # What a test does

    def world(self, name: str = "tea") -> Ref:
        return world_ref("acme", name)

    async def declare(self, name: str = "tea", *, annotations: dict[str, str] | None = None) -> None:
        """`kubectl apply` of a World with a token that may everything."""
        token = {"name": "robot", "operations": ["read", "publish"], "paths": ["/**"]}
        manifest = {
            "apiVersion": "demarkus.io/v1alpha1",
            "kind": "World",
            "metadata": {"name": name, "namespace": "acme", "annotations": annotations or {}},
            "spec": {"store": {"volume": {"size": "1Gi"}}, "tokens": [token]},
        }
        await self.port.apply(manifest)

    async def turn(self, name: str = "tea") -> list[str]:
        """One reconcile, and the pods follow; what was written."""
        outcome = Outcome()
        ref = self.world(name)
        await reconcile(self.edge, ref, concern_of(self.edge, ref), outcome=outcome)
        await self.pods.sync()
        return outcome.written

    async def condition(self, type_: str = "Ready", name: str = "tea") -> dict[str, Any]:
        status = (await self.port.get(self.world(name))).get("status") or {}
        return next((entry for entry in status.get("conditions", ()) if entry["type"] == type_), {})

    async def reaches(self, reason: str, type_: str = "Ready", name: str = "tea") -> dict[str, Any]:
        """The operator at work until a condition has this reason."""

        async def probe() -> dict[str, Any] | None:
            await self.turn(name)
            nonlocal last
            last = await self.condition(type_, name)
            return last if last.get("reason") == reason else None

        last: dict[str, Any] = {}
        try:
            found: dict[str, Any] = await eventually(f"{name} {type_}: {reason}", probe)
        except AssertionError as failed:
            logs = [log.read_text()[-3000:] for log in self.state.logs.rglob("*.log")]
            raise AssertionError(f"{failed}; the condition: {last}; logs: {logs}") from None
        return found

    async def serves(self, name: str = "tea") -> None:
        """A World that serves and whose history was witnessed, both of it as it is now."""
        await self.reaches("Serving", name=name)
        await self.reaches("Consistent", "HistoryVerified", name=name)

    async def ends(self, name: str = "tea") -> None:
        """The World is deleted; its process ends, and what is to be kept is."""
        await self.port.delete(self.world(name))
        await self.pods.sync()
        assert self._address(self.world(name), "mark") is None

    async def secret(self, name: str) -> dict[str, bytes]:
        return await self.secret_of(Ref("v1", "Secret", "acme", name))

    async def secret_of(self, ref: Ref) -> dict[str, bytes]:
        found = await self.port.get(ref)
        return {key: base64.b64decode(value) for key, value in found["data"].items()}

    async def record(self, name: str = "tea") -> Record | None:
        history = (await self.secret(f"{name}-identity"))["history"].decode()
        try:
            return read(await self.port.get(witness_record(OPERATOR_NAMESPACE, history)), history=history)
        except NotFound:
            return None

    def volume(self, name: str = "tea") -> Path:
        return self.state.volume("acme", f"{name}-data")

    async def lose_volume(self, name: str = "tea") -> None:
        """Claim and volume are gone for good."""
        await self.port.delete(WorldNames("acme", name).claim)
        shutil.rmtree(self.volume(name))

    @contextlib.asynccontextmanager
    async def client(self, name: str = "tea") -> AsyncIterator[MarkClient]:
        """A native client with the World's token."""
        address = self._address(self.world(name), "mark")
        assert address is not None
        host, _, port = address.rpartition(":")
        roots = (await self.secret(f"{name}-tls"))["ca.crt"]
        pool = Pool([(host, int(port))], server_name=f"{name}.acme.svc", trust=Trust(roots=roots), size=1)
        try:
            yield MarkClient(pool, auth=(await self.secret(f"{name}-token-robot"))["token"].decode())
        finally:
            await pool.close()

    async def publish(self, *paths: str, name: str = "tea") -> None:
        async with self.client(name) as client:
            for path in paths:
                answer = await client.publish(path, b"# Tea\n")
                assert answer.status == "created", answer
