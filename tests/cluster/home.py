"""A namespace of a test on the real control plane, and operator processes that look after it.

Budgets are named here. They say when to give up, not how long things take.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from demarkus_operator.cluster.kinds import SECRET, UNIVERSE, WATCHED_CHILDREN, WORLD
from demarkus_operator.cluster.kubernetes import Kubernetes
from demarkus_operator.cluster.port import NotFound
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.reconcile.universe import universe_ref
from demarkus_operator.reconcile.world import world_ref
from dev.cluster.plane import HOST, ControlPlane, die_with_starter, free_port

BUDGET = 60.0
"""Seconds for anything that is waited for."""
POLL = 0.1

OPERATOR_NAMESPACE = "demarkus-system"
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "universe"

T = TypeVar("T")


async def eventually(what: str, probe: Callable[[], Awaitable[T]], *, seconds: float = BUDGET) -> T:
    """What `probe` returns once that is true. Fails naming what was waited for, and what was seen last."""
    deadline = time.monotonic() + seconds
    while True:
        seen = await probe()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s for: {what}; last seen: {seen!r}")
        await asyncio.sleep(POLL)


class OperatorProcess:
    """`demarkus-operator` as a child process, acting with its ServiceAccount's token."""

    def __init__(
        self, kubeconfig: Path, log: Path, *, watch: Sequence[str], lease: str, arguments: Sequence[str] = ()
    ) -> None:
        self.log = log
        self._file = log.open("ab")
        command = [str(Path(sys.executable).parent / "demarkus-operator"), "--namespace", OPERATOR_NAMESPACE]
        command += [f"--watch-namespace={namespace}" for namespace in watch]
        self._health = f"{HOST}:{free_port()}"
        command += ["--lease", lease, "--health", self._health, *arguments]
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=self._file,
            preexec_fn=die_with_starter(),
        )

    def lines(self, message: str) -> list[dict[str, Any]]:
        """The lines of its log with this message."""
        found = (json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{"))
        return [line for line in found if line["message"] == message]

    def ask(self, path: str) -> str:
        """What its health port answers."""
        with urllib.request.urlopen(f"http://{self._health}{path}", timeout=BUDGET) as answer:
            return str(answer.read().decode())

    async def leads(self) -> None:
        """Waits until it acts."""

        async def probe() -> bool:
            assert self._process.poll() is None, f"the operator ended: {self.log.read_text()[-2000:]}"
            return bool(self.lines("leading"))

        await eventually("an operator that leads", probe)

    async def looked_at(self, ref: Ref, *, times: int = 1) -> None:
        """Waits until it reconciled an object so many times."""

        async def probe() -> bool:
            done = [line for line in self.lines("reconcile") if (line["kind"], line["name"]) == (ref.kind, ref.name)]
            return len(done) >= times

        await eventually(f"{times} reconciles of {ref}", probe)

    @property
    def status(self) -> int | None:
        """Its exit status, or None while it runs."""
        return self._process.poll()

    async def ended(self) -> int:
        """Waits for its end and gives the exit status."""
        status = await asyncio.to_thread(self._process.wait, BUDGET)
        self._file.close()
        return status

    async def stop(self) -> None:
        """Ends it as Kubernetes does, if it still runs."""
        if self._process.poll() is None:
            self._process.terminate()
        await self.ended()


@dataclass(slots=True, kw_only=True)
class Home:
    """The namespace, with short ways to what tests look at."""

    plane: ControlPlane
    api: Kubernetes
    namespace: str
    kubeconfig: Path
    operators: list[OperatorProcess] = field(default_factory=list)

    async def operator(self, *, lease: str | None = None, namespaces: Sequence[str] = ()) -> OperatorProcess:
        """A new operator process that looks after this namespace (or these), once it leads."""
        started = self.start_operator(lease=lease, namespaces=namespaces)
        await started.leads()
        return started

    def start_operator(
        self,
        *,
        lease: str | None = None,
        namespaces: Sequence[str] = (),
        kubeconfig: Path | None = None,
        arguments: Sequence[str] = (),
    ) -> OperatorProcess:
        """The same, without waiting; with another way to the API server, if one is given."""
        log = self.plane.folder / f"{self.namespace}-{len(self.operators)}.log"
        watch = namespaces or [self.namespace]
        started = OperatorProcess(
            kubeconfig or self.kubeconfig, log, watch=watch, lease=lease or self.namespace, arguments=arguments
        )
        self.operators.append(started)
        return started

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """Runs kubectl in the namespace, as an administrator."""
        return self.plane.kubectl("--namespace", self.namespace, *arguments, input=input).stdout

    def apply(self, *manifests: Manifest) -> None:
        """`kubectl apply` of these."""
        for manifest in manifests:
            self.kubectl("apply", "--filename", "-", input=json.dumps(manifest))

    def apply_files(self, files: Iterable[Path]) -> None:
        """`kubectl apply` of files."""
        for file in files:
            self.kubectl("apply", "--filename", str(file))

    def world(self, name: str = "handbook") -> Ref:
        """The name of a World here."""
        return world_ref(self.namespace, name)

    def world_in(self, namespace: str, name: str = "handbook") -> Ref:
        """The name of a World elsewhere."""
        return world_ref(namespace, name)

    def universe(self, name: str = "acme") -> Ref:
        """The name of a Universe here."""
        return universe_ref(self.namespace, name)

    async def find(self, ref: Ref) -> Manifest | None:
        """The object, or None."""
        try:
            return await self.api.get(ref)
        except NotFound:
            return None

    async def pods_are_ready(self, workload: Ref) -> None:
        """Says of a workload's pods what a kubelet would; its controller then counts them."""
        wanted = (await self.api.get(workload))["spec"]
        selector = ",".join(f"{key}={value}" for key, value in wanted["selector"]["matchLabels"].items())
        status = {"phase": "Running", "podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}
        ready = json.dumps({"status": {**status, "conditions": [{"type": "Ready", "status": "True"}]}})
        pods: list[str] = []

        async def made() -> bool:
            nonlocal pods
            pods = self.kubectl("get", "pods", f"--selector={selector}", "--output=name").split()
            return len(pods) == wanted["replicas"]

        await eventually(f"pods of {workload}", made)
        for pod in pods:
            self.kubectl("patch", pod, "--subresource=status", "--type=merge", "--patch", ready)

    async def condition(self, ref: Ref, type_: str = "Ready") -> dict[str, Any]:
        """A condition of an object; empty if it has none."""
        conditions = ((await self.find(ref)) or {}).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == type_), {})

    async def reaches(self, ref: Ref, reason: str, *, type_: str = "Ready") -> dict[str, Any]:
        """Waits until a condition has this reason, and gives it."""
        last: dict[str, Any] = {}

        async def probe() -> bool:
            nonlocal last
            last = await self.condition(ref, type_)
            return last.get("reason") == reason

        try:
            await eventually(f"{ref} {type_}: {reason}", probe)
        except AssertionError as failed:
            raise AssertionError(f"{failed}; the condition: {last}") from None
        return last

    async def objects(self) -> dict[Ref, Manifest]:
        """Everything of the kinds that the operator deals with, and its authorities for this namespace."""
        found: dict[Ref, Manifest] = {}
        for kind in (WORLD, UNIVERSE, SECRET, *WATCHED_CHILDREN):
            for one in await self.api.list(kind.api_version, kind.kind, namespace=self.namespace):
                found[Ref.of(one)] = one
        for one in await self.api.list("v1", "Secret", namespace=OPERATOR_NAMESPACE):
            if f"ca-{self.namespace}-" in one["metadata"]["name"]:
                found[Ref.of(one)] = one
        made_by_kubernetes = ("kube-root-ca.crt", "default")
        return {ref: one for ref, one in found.items() if ref.name not in made_by_kubernetes}

    async def versions(self) -> dict[Ref, str]:
        """The resourceVersion of all of it."""
        return {ref: one["metadata"]["resourceVersion"] for ref, one in (await self.objects()).items()}

    async def secrets(self) -> dict[Ref, Any]:
        """The data of every Secret."""
        return {ref: one["data"] for ref, one in (await self.objects()).items() if ref.kind == SECRET.kind}

    async def settled(self, *, subjects: Sequence[Ref] | None = None) -> None:
        """Waits until the example (or these) was told to the cluster and nothing changes any more."""
        for ref in subjects or (self.universe(), self.world(), self.world("packages")):
            await self.reaches(ref, "Applied", type_="Reconciled")
            await self.reaches(ref, "Starting")
        before: dict[Ref, str] = {}

        async def quiet() -> bool:
            nonlocal before
            last, before = before, await self.versions()
            await asyncio.sleep(5 * POLL)
            return last == before

        await eventually("nothing changes any more", quiet)

    def calls(self) -> list[dict[str, Any]]:
        """The audit log's calls of operators in this namespace, and those about it in their own."""
        user = f"system:serviceaccount:{OPERATOR_NAMESPACE}:demarkus-operator"
        return [
            call
            for call in self.plane.audit()
            if call["user"]["username"] == user
            and (
                call.get("objectRef", {}).get("namespace") == self.namespace
                or self.namespace in call.get("objectRef", {}).get("name", "")
            )
        ]

    def writes(self) -> list[str]:
        """The operators' writes about this namespace so far, but for the lease."""
        return [
            f"{call['verb']} {call['objectRef']['resource']} {call['objectRef'].get('name', '')}"
            for call in self.calls()
            if call["verb"] not in ("get", "list", "watch") and call["objectRef"]["resource"] != "leases"
        ]

    def tell(self) -> str:
        """What to print when a test failed."""
        parts = [self.kubectl("get", "worlds,universes", "--output", "yaml")]
        parts += [f"--- {o.log.name}\n{o.log.read_text()[-6000:]}" for o in self.operators]
        return "\n".join(parts)
