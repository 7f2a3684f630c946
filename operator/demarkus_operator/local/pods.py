"""Realises StatefulSets and Deployments as processes: what scheduler, kubelet and cluster DNS do for a pod.

A workload gets one process, however many replicas it asks for (none for `replicas: 0`). Its volumes become files below
a folder of its own, kept equal to the ConfigMaps and Secrets they come from; a claim becomes the folder of its volume.
A changed pod template ends the process and starts the new one, a changed ConfigMap changes a file. What happened is
written into the workload's status, so that the reconcilers see the same as in a cluster.

`sync` is called after every change of an object or a process; it looks at everything, which is little.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demarkus_operator.cluster.port import NotFound
from demarkus_operator.local.configs import Loopback, is_config, localised
from demarkus_operator.local.ports import LOOPBACK, Ports, Protocol
from demarkus_operator.local.probe import answers
from demarkus_operator.local.processes import Command, Pace, Phase, Process, State
from demarkus_operator.local.state import StateFolder, make_folder, write_durably
from demarkus_operator.local.store import FileStore
from demarkus_operator.plan.objects import Manifest, Ref

WORKLOADS = (("apps/v1", "StatefulSet"), ("apps/v1", "Deployment"))

NOBODY = f"{LOOPBACK}:1"
"""The address of a service that nothing here stands behind."""


@dataclass(frozen=True, slots=True)
class Program:
    """How to start the program of an image here, and what it listens on: name under `listen` -> protocol."""

    argv: Sequence[str]
    listen: Mapping[str, Protocol]
    public: str | None = None
    """The listener that the world outside reaches, if one's URL stands in the configuration (`publicURL`)."""


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
        programs: Mapping[str, Program],
        environment: Mapping[str, str],
        changed: Callable[[], None],
        pace: Pace | None = None,
    ) -> None:
        """`programs` is keyed by the label app.kubernetes.io/name; `changed` is called when a process changes state."""
        self._store = store
        self._folder = folder
        self._programs = programs
        self._environment = {key: value for key, value in environment.items() if not key.startswith("DEMARKUS_")}
        self._changed = changed
        self._pace = pace or Pace()
        self._ports = Ports(folder.ports)
        self._pods: dict[Ref, _Pod] = {}

    async def sync(self) -> None:
        """Make the processes what the stored workloads say, their files what ConfigMaps and Secrets say, and tell."""
        for pod in self._pods.values():
            if pod.task.done():
                pod.task.result()  # supervision itself failed: a bug, not a child that ended
        workloads = {Ref.of(workload): workload for workload in await self._workloads()}
        gone = [
            pod
            for ref, pod in self._pods.items()
            if ref not in workloads or not _wanted(workloads[ref]) or pod.template != _template(workloads[ref])
        ]
        await self._end(gone)
        for ref, workload in workloads.items():
            if ref in self._pods:
                # As kubelet does: while something is missing, a running process keeps the files it has.
                with contextlib.suppress(ValueError):
                    await self._refresh(workload)
            elif _wanted(workload):
                self._start(ref, workload)
            await self._tell(ref, workload)

    async def close(self) -> None:
        """End all processes; returns when the last is gone."""
        await self._end(list(self._pods.values()))

    def states(self) -> list[PodState]:
        """What runs, in the order of names."""
        return [
            PodState(ref, pod.process.state, self._known(ref), self._folder.log(ref.namespace, ref.name))
            for ref, pod in sorted(self._pods.items(), key=lambda item: (item[0].namespace, item[0].name))
        ]

    def address(self, namespace: str, name: str, listener: str, protocol: Protocol) -> str:
        """Where a workload's listener is or will be, as host:port."""
        key = _port_name(namespace, name, listener)
        # Not `choose` alone: a port that the process itself has bound is not free, and still the right answer.
        return f"{LOOPBACK}:{self._ports.known(key) or self._ports.choose(key, protocol)}"

    def _start(self, ref: Ref, workload: Manifest) -> None:
        def changed(state: State) -> None:
            self._changed()

        async def prepare() -> Command:
            return await self._prepare(ref)

        log = self._folder.log(ref.namespace, ref.name)
        lock = self._folder.process_lock(ref.namespace, ref.name)
        process = Process(log, lock, prepare, changed, self._pace)
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
        program = self._program(workload)
        for listener, protocol in program.listen.items():
            self._ports.choose(_port_name(ref.namespace, ref.name, listener), protocol)
        loopback = await self._refresh(workload)
        container = _container(workload)
        environment = dict(self._environment)
        for variable in container.get("env", ()):
            if "value" in variable:
                environment[variable["name"]] = loopback.path(variable["value"])
        arguments = [loopback.path(argument) for argument in container.get("args", ())]
        probe = container["readinessProbe"]["httpGet"]["path"]
        health = loopback.listen["health"]

        async def ready() -> bool:
            return await answers(health, probe)

        return Command((*program.argv, *arguments, "--stop-on-stdin-eof"), environment, ready)

    async def _refresh(self, workload: Manifest) -> Loopback:
        """Bring the process's files up to date; raises ValueError if something it needs is not there yet."""
        ref = Ref.of(workload)
        program = self._program(workload)
        mounts: dict[str, Path] = {}
        contents: dict[Path, Mapping[str, bytes]] = {}
        volumes = {volume["name"]: volume for volume in _pod_spec(workload).get("volumes", ())}
        for mount in _container(workload).get("volumeMounts", ()):
            volume = volumes[mount["name"]]
            if claim := volume.get("persistentVolumeClaim"):
                folder = self._folder.volume(ref.namespace, claim["claimName"])
            else:
                folder = self._folder.pod(ref.namespace, ref.name) / mount["mountPath"].lstrip("/")
                contents[folder] = await self._files(ref.namespace, volume)
            mounts[mount["mountPath"]] = folder
        listen = {
            name: self.address(ref.namespace, ref.name, name, protocol) for name, protocol in program.listen.items()
        }
        addresses = await self._addresses()
        loopback = Loopback(
            mounts,
            listen,
            public_url=f"http://{listen[program.public]}" if program.public else None,
            addresses=lambda service: [addresses.get(service, NOBODY)],
        )
        for folder, files in contents.items():
            here = {
                name: localised(name, data.decode(), loopback).encode() if is_config(name) else data
                for name, data in files.items()
            }
            await asyncio.to_thread(_make_equal, folder, here)
        for folder in mounts.values():
            await asyncio.to_thread(make_folder, folder)
        return loopback

    async def _files(self, namespace: str, volume: Mapping[str, Any]) -> dict[str, bytes]:
        if "projected" in volume:
            files: dict[str, bytes] = {}
            for source in volume["projected"]["sources"]:
                files |= await self._files(namespace, source)
            return files
        for kind, key in (("ConfigMap", "configMap"), ("Secret", "secret")):
            if key in volume:
                source = volume[key]
                name = source.get("name") or source["secretName"]
                try:
                    manifest = await self._store.get(Ref("v1", kind, namespace, name))
                except NotFound:
                    if source.get("optional"):
                        return {}
                    raise ValueError(f"{kind} {namespace}/{name} is not there yet") from None
                return dict(_selected(_data(manifest), source.get("items")))
        return {}  # emptyDir: a folder and no more

    async def _addresses(self) -> dict[str, str]:
        """Cluster services as host:port, in all spellings of the host, and where they are answered here."""
        workloads = await self._workloads()
        found: dict[str, str] = {}
        for service in await self._store.list("v1", "Service"):
            namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
            selector = service["spec"].get("selector", {}).items()
            for workload in workloads:
                labels = workload["spec"]["template"]["metadata"].get("labels", {}).items()
                if not selector or workload["metadata"]["namespace"] != namespace or not selector <= labels:
                    continue
                for listener, port in self._service_ports(service, workload):
                    address = self.address(namespace, workload["metadata"]["name"], listener, port[1])
                    for host in (f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local"):
                        found[f"{host}:{port[0]}"] = address
        return found

    def _service_ports(self, service: Manifest, workload: Manifest) -> Iterator[tuple[str, tuple[int, Protocol]]]:
        listen = self._program(workload).listen
        for port in service["spec"].get("ports", ()):
            target = port.get("targetPort", port["port"])
            for offered in _container(workload).get("ports", ()):
                if target in (offered["name"], offered["containerPort"]) and offered["name"] in listen:
                    yield offered["name"], (port["port"], listen[offered["name"]])

    def _program(self, workload: Manifest) -> Program:
        name = workload["spec"]["template"]["metadata"].get("labels", {}).get("app.kubernetes.io/name")
        program = self._programs.get(name)
        if program is None:
            raise ValueError(f"no program stands for app.kubernetes.io/name={name} on this machine")
        return program

    def _known(self, ref: Ref) -> dict[str, str]:
        prefix = _port_name(ref.namespace, ref.name, "")
        return {name.removeprefix(prefix): f"{LOOPBACK}:{port}" for name, port in self._ports.below(prefix)}

    async def _tell(self, ref: Ref, workload: Manifest) -> None:
        pod = self._pods.get(ref)
        ready = int(pod is not None and pod.process.state.phase is Phase.READY)
        replicas = int(pod is not None)
        status: dict[str, Any] = {
            "observedGeneration": workload["metadata"]["generation"],
            "replicas": replicas,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "updatedReplicas": replicas,
        }
        if any(workload.get("status", {}).get(key) != value for key, value in status.items()):
            await self._store.patch_status(ref, status)


def _port_name(namespace: str, name: str, listener: str) -> str:
    return f"{namespace}/{name}/{listener}"


def _wanted(workload: Manifest) -> bool:
    return bool(workload["spec"].get("replicas", 1))


def _pod_spec(workload: Manifest) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = workload["spec"]["template"]["spec"]
    return spec


def _container(workload: Manifest) -> Mapping[str, Any]:
    container: Mapping[str, Any] = _pod_spec(workload)["containers"][0]
    return container


def _template(workload: Manifest) -> str:
    return hashlib.sha256(json.dumps(workload["spec"]["template"], sort_keys=True).encode()).hexdigest()


def _data(manifest: Manifest) -> dict[str, bytes]:
    if manifest["kind"] == "Secret":
        return {key: base64.b64decode(value) for key, value in manifest.get("data", {}).items()}
    return {key: value.encode() for key, value in manifest.get("data", {}).items()}


def _selected(data: Mapping[str, bytes], items: Sequence[Mapping[str, Any]] | None) -> Iterator[tuple[str, bytes]]:
    if items is None:
        yield from data.items()
    else:
        for item in items:
            if item["key"] in data:
                yield item["path"], data[item["key"]]


def _make_equal(folder: Path, files: Mapping[str, bytes]) -> None:
    make_folder(folder)
    for name, data in files.items():
        path = folder / name
        try:
            if path.read_bytes() == data:
                continue
        except FileNotFoundError:
            pass
        write_durably(path, data)
    for entry in os.scandir(folder):
        if entry.name not in files and entry.is_file(follow_symlinks=False):
            os.unlink(entry.path)
