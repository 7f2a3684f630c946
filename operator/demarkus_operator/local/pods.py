"""Realises StatefulSets and Deployments as processes: what scheduler, kubelet and cluster DNS do for a pod.

A workload gets one process, which stands for all the replicas it asks for. The process is the container's command,
found on this machine. Its volumes become files below a folder of its own, kept equal to the ConfigMaps and Secrets they
come from; a claim becomes the folder of its volume. A changed pod template ends the process and starts the new one, a
changed ConfigMap changes a file. What happened is written into the workload's status, so that the reconcilers see the
same as in a cluster.

`sync` is called after every change of an object or a process; it looks at everything, which is little.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demarkus_operator.cluster.port import NotFound
from demarkus_operator.local.configs import Loopback, is_config, localised
from demarkus_operator.local.ports import LOOPBACK, Ports, Protocol
from demarkus_operator.local.probe import readiness
from demarkus_operator.local.processes import Command, Pace, Phase, Process, State
from demarkus_operator.local.state import StateFolder, keep, make_folder
from demarkus_operator.local.store import FileStore
from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Manifest, Ref
from demarkus_operator.processes.asked import Place

WORKLOADS = (("apps/v1", "StatefulSet"), ("apps/v1", "Deployment"))

NOBODY = f"{LOOPBACK}:1"
"""The address of a service that nothing here stands behind."""


@dataclass(slots=True)
class _Pod:
    """A running workload: the template it was started from, and its process."""

    workload: Ref
    template: str
    process: Process
    task: asyncio.Task[None] = field(init=False)


@dataclass(frozen=True, slots=True)
class PodState:
    """What can be told of a workload's process: its listeners are host:port by name."""

    workload: Ref
    process: State
    listen: Mapping[str, str]
    log: Path


class Pods:
    """All processes of a state folder. Belongs to one event loop; `sync` is not called twice at once."""

    def __init__(
        self,
        *,
        store: FileStore,
        folder: StateFolder,
        find_program: Callable[[str], str],
        environment: Mapping[str, str],
        changed: Callable[[], None],
        hurry: asyncio.Event,
        pace: Pace | None = None,
    ) -> None:
        """`find_program` gives a container's command as a path here; `changed` tells of a process's new state.

        Once `hurry` is set, processes that are to end get no time for it.
        """
        self._store = store
        self._folder = folder
        self._find_program = find_program
        self._environment = {key: value for key, value in environment.items() if not key.startswith("DEMARKUS_")}
        self._changed = changed
        self._hurry = hurry
        self._pace = pace or Pace()
        self._ports = Ports(folder.ports)
        self._pods: dict[Ref, _Pod] = {}
        self._placing = asyncio.Lock()  # ports and files belong together
        self._configs: dict[Ref, str] = {}  # the hash of the configuration file that a process should have loaded

    async def sync(self) -> None:
        """Make the processes what the stored workloads say, their files what ConfigMaps and Secrets say, and tell."""
        for pod in self._pods.values():
            if pod.task.done():
                pod.task.result()  # supervision itself failed: a bug, not a child that ended
        workloads = {Ref.of(workload): workload for workload in await self._workloads()}
        gone = [
            pod
            for ref, pod in self._pods.items()
            if ref not in workloads
            or not workloads[ref]["spec"]["replicas"]
            or pod.template != _template(workloads[ref])
        ]
        await self._end(gone)
        await asyncio.to_thread(self._sweep, {(ref.namespace, ref.name) for ref in workloads})
        for ref, workload in workloads.items():
            if ref in self._pods:
                # As kubelet does: while something is missing, a running process keeps the files it has.
                with contextlib.suppress(ValueError):
                    async with self._placing:
                        await self._place(workload)
            elif workload["spec"]["replicas"]:
                self._start(ref, workload)
            await self._tell(ref, workload)

    async def close(self) -> None:
        """End all processes; returns when the last is gone."""
        await self._end(list(self._pods.values()))

    def states(self) -> list[PodState]:
        """What runs, in the order of names."""
        return [
            PodState(ref, pod.process.state, self._listen(ref), self._folder.log(ref.namespace, ref.name))
            for ref, pod in sorted(self._pods.items(), key=lambda item: (item[0].namespace, item[0].name))
        ]

    async def places(self, ref: Ref) -> Sequence[Place]:
        """Where the process of a World or Universe answers; nowhere while it does not run."""
        selector = labels.world_selector if ref.kind == "World" else labels.broker_selector
        wanted = selector(ref.name).items()
        found = []
        for pod in self.states():
            if pod.workload.namespace != ref.namespace or pod.process.phase not in (Phase.STARTING, Phase.READY):
                continue
            workload = await self._store.get(pod.workload)
            if wanted <= workload["metadata"]["labels"].items():
                ready = pod.process.phase is Phase.READY
                health, management = pod.listen.get("health"), pod.listen.get("management")
                found.append(Place(pod=pod.workload.name, address=health, management=management, ready=ready))
        return found

    def _sweep(self, wanted: Container[tuple[str, str]]) -> None:
        """Remove the files of workloads that are gone: there are keys among them."""
        for place in self._folder.pods.glob("*/*/"):
            if (place.parent.name, place.name) not in wanted:
                shutil.rmtree(place, ignore_errors=True)

    def _start(self, ref: Ref, workload: Manifest) -> None:
        def changed(state: State) -> None:
            self._changed()

        async def prepare() -> Command:
            return await self._prepare(ref)

        log = self._folder.log(ref.namespace, ref.name)
        lock = self._folder.process_lock(ref.namespace, ref.name)
        process = Process(log, lock, prepare, changed, self._pace, self._hurry)
        pod = _Pod(ref, _template(workload), process)
        pod.task = asyncio.create_task(process.run(), name=f"process {ref.namespace}/{ref.name}")
        self._pods[ref] = pod

    async def _end(self, pods: Sequence[_Pod]) -> None:
        for pod in pods:
            pod.task.cancel()
        results = await asyncio.gather(*(pod.task for pod in pods), return_exceptions=True)
        for pod, result in zip(pods, results, strict=True):
            del self._pods[pod.workload]
            if isinstance(result, Exception):
                raise result

    async def _workloads(self) -> list[Manifest]:
        return [workload for api_version, kind in WORKLOADS for workload in await self._store.list(api_version, kind)]

    async def _prepare(self, ref: Ref) -> Command:
        """The start of a process: ports that are free now, files as they should be. Raises ValueError, OSError."""
        workload = await self._store.get(ref)
        container = _container(workload)
        async with self._placing:
            for listener, protocol in _listeners(container).items():
                self._ports.choose(_port_name(ref.namespace, ref.name, listener), protocol)
            loopback = await self._place(workload)
        command = [*container["command"], *container.get("args", ())]
        environment = dict(self._environment)
        for variable in container.get("env", ()):
            environment[variable["name"]] = loopback.path(variable["value"])

        async def ready() -> bool:
            facts = await readiness(loopback.listen["health"])
            return facts is not None and facts.get("loaded", {}).get("config") == self._configs.get(ref)

        argv = (self._find_program(command[0]), *map(loopback.path, command[1:]), "--stop-on-stdin-eof")
        return Command(argv, environment, ready)

    async def _place(self, workload: Manifest) -> Loopback:
        """Make the process's files what they should be; raises ValueError if something it needs is not there yet."""
        ref = Ref.of(workload)
        container = _container(workload)
        volumes = {volume["name"]: volume for volume in workload["spec"]["template"]["spec"].get("volumes", ())}
        mounts: dict[str, Path] = {}
        contents: dict[Path, Mapping[str, bytes]] = {}
        for mount in container.get("volumeMounts", ()):
            volume = volumes[mount["name"]]
            if claim := volume.get("persistentVolumeClaim"):
                folder = self._folder.volume(ref.namespace, claim["claimName"])
                await asyncio.to_thread(make_folder, folder)
            else:
                folder = self._folder.pod(ref.namespace, ref.name) / mount["mountPath"].lstrip("/")
                if "configMap" in volume or "secret" in volume:
                    contents[folder] = await self._files(ref.namespace, volume)
                else:  # scratch space, or a credential for an API server that is not there
                    await asyncio.to_thread(make_folder, folder)
            mounts[mount["mountPath"]] = folder
        listen = {name: self._address(ref, name, protocol) for name, protocol in _listeners(container).items()}
        addresses = await self._addresses()
        loopback = Loopback(
            mounts,
            listen,
            public_url=f"http://{listen['http']}" if "http" in listen else None,
            addresses=lambda service: [addresses.get(service, NOBODY)],
        )
        for folder, files in contents.items():
            here = dict(files)
            for name in filter(is_config, files):
                here[name] = localised(name, files[name].decode(), loopback).encode()
                config = hashlib.sha256(here[name]).hexdigest()
                if self._configs.get(ref) != config:
                    self._configs[ref] = config
                    if ref in self._pods:
                        self._pods[ref].process.doubt()
            await asyncio.to_thread(_make_equal, folder, here)
        return loopback

    async def _files(self, namespace: str, volume: Mapping[str, Any]) -> dict[str, bytes]:
        if "configMap" in volume:
            ref = Ref("v1", "ConfigMap", namespace, volume["configMap"]["name"])
            keys = None
        else:
            ref = Ref("v1", "Secret", namespace, volume["secret"]["secretName"])
            keys = volume["secret"].get("items")
        try:
            data = _data(await self._store.get(ref))
        except NotFound:
            raise ValueError(f"{ref} is not there yet") from None
        return data if keys is None else {item["path"]: data[item["key"]] for item in keys if item["key"] in data}

    async def _addresses(self) -> dict[str, str]:
        """Cluster services as host:port, in all spellings of the host, and where they are answered here."""
        workloads = await self._workloads()
        found: dict[str, str] = {}
        for service in await self._store.list("v1", "Service"):
            namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
            selector = service["spec"]["selector"].items()
            for workload in workloads:
                ref = Ref.of(workload)
                if (
                    ref.namespace != namespace
                    or not selector <= workload["spec"]["template"]["metadata"]["labels"].items()
                ):
                    continue
                listeners = _listeners(_container(workload))
                for port in service["spec"]["ports"]:
                    target = port["targetPort"]
                    if target in listeners:
                        for host in (f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local"):
                            found[f"{host}:{port['port']}"] = self._address(ref, target, listeners[target])
        return found

    def _address(self, ref: Ref, listener: str, protocol: Protocol) -> str:
        """Where a workload's listener is or will be, as host:port."""
        name = _port_name(ref.namespace, ref.name, listener)
        # Not `choose` alone: a port that the process itself has bound is not free, and still the right answer.
        return f"{LOOPBACK}:{self._ports.known(name) or self._ports.choose(name, protocol)}"

    def _listen(self, ref: Ref) -> dict[str, str]:
        prefix = _port_name(ref.namespace, ref.name, "")
        return {name.removeprefix(prefix): f"{LOOPBACK}:{port}" for name, port in self._ports.below(prefix)}

    async def _tell(self, ref: Ref, workload: Manifest) -> None:
        pod = self._pods.get(ref)
        replicas = workload["spec"]["replicas"] if pod is not None else 0
        ready = replicas if pod is not None and pod.process.state.phase is Phase.READY else 0
        status = {
            "observedGeneration": workload["metadata"]["generation"],
            "replicas": replicas,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "updatedReplicas": replicas,
        }
        if workload.get("status") != status:
            await self._store.patch_status(ref, status)


def _port_name(namespace: str, name: str, listener: str) -> str:
    return f"{namespace}/{name}/{listener}"


def _container(workload: Manifest) -> Mapping[str, Any]:
    container: Mapping[str, Any] = workload["spec"]["template"]["spec"]["containers"][0]
    return container


def _listeners(container: Mapping[str, Any]) -> dict[str, Protocol]:
    """The container's ports by name, which are the names under `listen` in its configuration."""
    return {port["name"]: "udp" if port.get("protocol") == "UDP" else "tcp" for port in container["ports"]}


def _template(workload: Manifest) -> str:
    return hashlib.sha256(json.dumps(workload["spec"]["template"], sort_keys=True).encode()).hexdigest()


def _data(manifest: Manifest) -> dict[str, bytes]:
    if manifest["kind"] == "Secret":
        return {key: base64.b64decode(value) for key, value in manifest.get("data", {}).items()}
    return {key: value.encode() for key, value in manifest.get("data", {}).items()}


def _make_equal(folder: Path, files: Mapping[str, bytes]) -> None:
    make_folder(folder)
    for name, data in files.items():
        keep(folder / name, data)
    for entry in os.scandir(folder):
        if entry.name not in files and entry.is_file(follow_symlinks=False):
            os.unlink(entry.path)
