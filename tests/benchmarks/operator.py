"""`python -m tests.benchmarks.operator`: what the operator does with many Worlds on a real control plane.

Prints a table while it goes, and all figures as one JSON line at the end; asserts nothing about time. There is no node:
the pods of Worlds are told to be ready by this program. `--worlds 200 --seconds 10` tries it out in two minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_kube_config

from demarkus_operator.cluster import rbac
from demarkus_operator.cluster.kubernetes import Kubernetes
from demarkus_operator.cluster.port import AlreadyExists, Conflict, NotFound, TryLater
from demarkus_operator.plan.names import WorldNames
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.reconcile.resync import EVERY
from demarkus_operator.reconcile.universe import universe_ref
from demarkus_operator.reconcile.world import world_ref
from dev.cluster.build import build
from dev.cluster.plane import ControlPlane, die_with_starter, free_port

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "acme"
OPERATOR_NAMESPACE = "demarkus-system"
FEW = 100
AT_ONCE = 16
CHANGES_A_SECOND = 5.0
PATIENCE = 900.0
"""Seconds after which something that is waited for counts as never coming."""


def tell(name: str, **figures: Any) -> None:
    """One row of the table."""
    print(f"{name:<44}" + "  ".join(f"{what} {value}" for what, value in figures.items()), flush=True)


def spread(seconds: list[float]) -> dict[str, float]:
    """The middle, the 95th percentile and the most."""
    ordered = sorted(seconds)
    at = {"p50": 0.5, "p95": 0.95, "max": 1.0}
    return {name: round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 2) for name, part in at.items()}


async def until(what: str, probe: Callable[[], Awaitable[bool]], *, every: float = 0.05) -> float:
    """Seconds until `probe` is true."""
    started = time.monotonic()
    while not await probe():
        if time.monotonic() - started > PATIENCE:
            raise SystemExit(f"never came: {what}")
        await asyncio.sleep(every)
    return time.monotonic() - started


async def each(work: Callable[[str], Awaitable[None]], names: Iterable[str]) -> None:
    """Does it for all, some at once."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> None:
        async with gate:
            await work(name)

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(one(name))


class Process:
    """The operator as a child process, with all namespaces in its care."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path, number: int) -> None:
        self.log = plane.folder / f"operator-{number}.log"
        command = [str(Path(sys.executable).parent / "demarkus-operator"), "--namespace", OPERATOR_NAMESPACE]
        command += ["--health", f"127.0.0.1:{free_port()}"]
        self.started = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "KUBECONFIG": str(kubeconfig)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_starter(),
            )

    def looked_at(self) -> set[str]:
        """The names of Worlds that were reconciled."""
        lines = (json.loads(line) for line in self.log.read_text().splitlines() if '"reconcile"' in line)
        return {line["name"] for line in lines if line.get("kind") == "World"}

    def memory(self) -> dict[str, float]:
        """Resident memory in MiB: now, and the most so far."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        found = {
            line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith(("VmRSS", "VmHWM"))
        }
        return {"now": round(found["VmRSS"], 1), "most": round(found["VmHWM"], 1)}

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Ends it."""
        self._process.terminate()
        self._process.wait()


@dataclass(slots=True)
class Bench:
    """A control plane with an operator, and what is measured there."""

    plane: ControlPlane
    api: Kubernetes
    kubeconfig: Path
    process: Process
    figures: dict[str, Any] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    _audited: int = 0

    def note(self, name: str, **figures: Any) -> None:
        """One figure, or several of one kind."""
        tell(name, **figures)
        self.figures[name] = figures

    async def grow(self, count: int) -> None:
        """Makes Worlds until there are so many, and waits until all serve."""
        new = [f"world-{number}" for number in range(len(self.names), count)]
        started = time.monotonic()
        await each(self._create, new)
        self.names += new
        seconds = await until("all Worlds serve", self._all_serve, every=1.0)
        self.note(
            f"create {len(new)} Worlds, {count} in all",
            seconds=round(time.monotonic() - started, 1),
            waited=round(seconds, 1),
            cpu=round(self.process.cpu(), 1),
        )

    async def _create(self, name: str) -> None:
        with contextlib.suppress(AlreadyExists):
            await self.api.create(a_world(name))

    async def _all_serve(self) -> bool:
        ready = 0
        async for page in self.api.pages("demarkus.io/v1alpha1", "World", namespace=NAMESPACE):
            ready += sum(reason_of(world) == "Serving" for world in page)
        return ready == len(self.names)

    async def change(self, name: str) -> float:
        """Changes a World's spec; seconds until its children say so."""
        number = random.randrange(2, 1000)
        config = WorldNames(NAMESPACE, name).config
        await self._edit(world_ref(NAMESPACE, name), {"spec": {"limits": {"maxStreams": number}}})

        async def followed() -> bool:
            return f"maxStreams: {number}\n" in (await self.api.get(config))["data"]["world.yaml"]

        return await until(f"maxStreams of {name}", followed)

    async def _edit(self, ref: Ref, patch: dict[str, Any]) -> None:
        while True:
            try:
                await self.api.patch(ref, patch, (await self.api.get(ref))["metadata"]["resourceVersion"])
            except (Conflict, TryLater):
                continue
            return

    async def changes(self, *, a_second: float, seconds: float) -> None:
        """Changes Worlds here and there at a steady rate."""
        tasks: list[asyncio.Task[float]] = []
        started, before = time.monotonic(), self.process.cpu()
        order = random.sample(self.names, len(self.names))  # no World twice before all: it would forget the first
        for number in range(max(20, int(a_second * seconds))):
            await asyncio.sleep(max(0.0, started + number / a_second - time.monotonic()))
            tasks.append(asyncio.create_task(self.change(order[number % len(order)])))
        found = await asyncio.gather(*tasks)
        elapsed = time.monotonic() - started
        self.note(
            f"spec change -> children, {len(self.names)} Worlds, {a_second:g}/s",
            **spread(list(found)),
            changes=len(found),
            cpu_share=round((self.process.cpu() - before) / elapsed, 2),
        )

    async def universe_change(self) -> None:
        """Changes what every World's children say: the default retention."""
        before = {ref: one["metadata"]["resourceVersion"] for ref, one in (await self._configs()).items()}
        started = time.monotonic()
        retention = {"keepVersions": 7}
        await self._edit(universe_ref(NAMESPACE, "acme"), {"spec": {"worlds": {"defaults": {"retention": retention}}}})

        async def all_followed() -> bool:
            now = await self._configs()
            return all(now[ref]["metadata"]["resourceVersion"] != version for ref, version in before.items())

        await until("all Worlds say the new default", all_followed, every=1.0)
        self.note(f"a Universe change for {len(self.names)} Worlds", seconds=round(time.monotonic() - started, 1))

    async def _configs(self) -> dict[Ref, Manifest]:
        found: dict[Ref, Manifest] = {}
        async for page in self.api.pages(
            "v1", "ConfigMap", namespace=NAMESPACE, labels={"app.kubernetes.io/name": "demarkus-world"}
        ):
            found.update({Ref.of(one): one for one in page if one["metadata"]["name"].endswith("-world-config")})
        return found

    async def restart(self) -> None:
        """Ends the operator and starts another one; seconds from its start until it looked at every World."""
        self.process.stop()
        self.calls()
        self.process = Process(self.plane, self.kubeconfig, 1)

        async def all_looked_at() -> bool:
            return self.process.looked_at() >= set(self.names)

        await until("all Worlds looked at", all_looked_at, every=0.5)
        self.note(
            f"restart to all {len(self.names)} looked at",
            seconds=round(time.monotonic() - self.process.started, 1),
            reads=self.calls()["reads"],
            cpu=round(self.process.cpu(), 1),
            **{f"rss_{name}": value for name, value in self.process.memory().items()},
        )

    async def quiet(self, seconds: float) -> None:
        """Counts calls while nothing happens; a look at everything, which comes every ten minutes, is added."""
        await asyncio.sleep(5)
        self.calls()
        await asyncio.sleep(seconds)
        counted = self.calls()
        look = self.figures[f"restart to all {len(self.names)} looked at"]["reads"]
        self.note(
            f"quiet, {len(self.names)} Worlds",
            reads_a_second=round(counted["reads"] / seconds + look / EVERY, 2),
            of_which_between_looks=round(counted["reads"] / seconds, 2),
            writes=counted["writes"],
        )

    def calls(self) -> dict[str, int]:
        """How many calls the operator made since this was last asked, but for the lease; from the audit log."""
        found = {"reads": 0, "writes": 0}
        with self.plane.audit_log.open("rb") as log:
            log.seek(self._audited)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._audited += len(line)
                call = json.loads(line)
                ours = call["user"]["username"].endswith(f":{rbac.NAME}")
                if ours and call.get("objectRef", {}).get("resource") != "leases":
                    found["reads" if call["verb"] in ("get", "list", "watch") else "writes"] += 1
        return found


def a_world(name: str) -> dict[str, Any]:
    """A World of the Universe, with a token."""
    token = {"name": "robot", "operations": ["read"], "paths": ["/**"]}
    spec = {"store": {"volume": {"size": "1Gi"}}, "universeRef": {"name": "acme"}, "tokens": [token]}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "demarkus.io/v1alpha1", "kind": "World", "metadata": metadata, "spec": spec}


def reason_of(subject: Manifest) -> str:
    """The reason of its `Ready`."""
    conditions = (subject.get("status") or {}).get("conditions") or ()
    return next((str(entry["reason"]) for entry in conditions if entry["type"] == "Ready"), "")


async def pods_get_ready(api: Kubernetes) -> None:
    """In the place of kubelets: says of every pod that it runs and is ready, for ever."""
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

    async def one(name: str) -> None:
        with contextlib.suppress(NotFound, TryLater):
            await api.patch_status(Ref("v1", "Pod", NAMESPACE, name), ready)

    while True:
        waiting: list[str] = []
        with contextlib.suppress(TryLater):
            async for page in api.pages("v1", "Pod", namespace=NAMESPACE):
                waiting += [pod["metadata"]["name"] for pod in page if pod["status"].get("phase") != "Running"]
        await each(one, waiting)
        await asyncio.sleep(1)


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Bench]:
    """A control plane, an operator, a Universe without Worlds."""
    with ControlPlane(build()) as plane:
        plane.kubectl("apply", "--server-side", "--filename", str(ROOT / "crds"))
        for namespace in (OPERATOR_NAMESPACE, NAMESPACE):
            plane.kubectl("create", "namespace", namespace)
        for manifest in rbac.manifests(OPERATOR_NAMESPACE):
            plane.kubectl("apply", "--filename", "-", input=json.dumps(manifest))
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        token = plane.kubectl("create", "token", rbac.NAME, "--namespace", OPERATOR_NAMESPACE, "--duration=2h")
        kubeconfig = plane.folder / "operator.kubeconfig"
        plane.write_kubeconfig(kubeconfig, {"token": token.stdout.strip()})
        configuration = Configuration()
        await load_kube_config(str(plane.kubeconfig), client_configuration=configuration, persist_config=False)
        async with Kubernetes(configuration, seconds=60.0) as api:
            universe = {
                "apiVersion": "demarkus.io/v1alpha1",
                "kind": "Universe",
                "metadata": {"name": "acme", "namespace": NAMESPACE},
                "spec": {"publicURL": "https://mark.acme.example"},
            }
            await api.create(universe)
            bench = Bench(plane, api, kubeconfig, Process(plane, kubeconfig, 0))
            kubelets = asyncio.create_task(pods_get_ready(api))
            try:
                yield bench
            finally:
                kubelets.cancel()
                await asyncio.gather(kubelets, return_exceptions=True)
                bench.process.stop()


async def measure(*, worlds: int, seconds: float) -> dict[str, Any]:
    """All figures."""
    async with running() as bench:
        await bench.grow(min(FEW, worlds))
        await bench.changes(a_second=1.0, seconds=seconds)
        if worlds > FEW:
            await bench.grow(worlds)
        await bench.changes(a_second=CHANGES_A_SECOND, seconds=seconds)
        await bench.universe_change()
        tell("memory", **bench.process.memory())
        await bench.restart()
        await bench.quiet(seconds)
        bench.note("memory after all", **bench.process.memory())
        return bench.figures


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.operator", description=__doc__)
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=45.0, help="how long each rate of changes is kept up")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(worlds=options.worlds, seconds=options.seconds))))


if __name__ == "__main__":
    main()
