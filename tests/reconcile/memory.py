"""An API server in a dictionary, as strict as the real one where the reconcilers could be wrong about it.

It keeps uid, resourceVersion, generation, who set which field, and owners; it fills in a default; it refuses what the
real one refuses. Faults are put in by a function that is asked before and after every call.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from demarkus_operator.cluster.apply import MANAGER
from demarkus_operator.cluster.kinds import NAMESPACE, SECRET, UNIVERSE, WORLD, kind_of
from demarkus_operator.cluster.port import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from demarkus_operator.plan.objects import Manifest, Ref

Path = tuple[str, ...]
READS = ("get", "list")


class Crash(BaseException):
    """The process is gone; nothing catches it."""


class MemoryPort:
    """The port, and what tests do to the cluster behind the reconcilers' back."""

    def __init__(self) -> None:
        self.objects: dict[Ref, dict[str, Any]] = {}
        self.writes: list[tuple[str, Ref]] = []
        self.calls: list[tuple[str, Ref | None]] = []
        self.before: Callable[[str, Ref | None], None] = lambda verb, ref: None
        self.after: Callable[[str, Ref | None], None] = lambda verb, ref: None
        self.lacking = {("gateway.networking.k8s.io/v1", "HTTPRoute")}  # kinds that this cluster lacks
        self._owned: dict[Ref, set[Path]] = {}
        self._count = 0

    # -- the port

    async def get(self, ref: Ref) -> Manifest:
        with self._call("get", ref):
            kind_of(ref.api_version, ref.kind)
            return self._read(ref)

    async def list(
        self, api_version: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Sequence[Manifest]:
        with self._call("list", None):
            if (api_version, kind) in self.lacking:
                raise NotFound(f"list {kind}: 404 the server could not find the requested resource")
            assert kind_of(api_version, kind) is not SECRET, "Secrets are read by name only"
            wanted = (labels or {}).items()
            return [
                self._read(ref)
                for ref, found in sorted(self.objects.items())
                if (ref.api_version, ref.kind) == (api_version, kind)
                and namespace in (None, ref.namespace)
                and wanted <= (found["metadata"].get("labels") or {}).items()
            ]

    async def pages(
        self, api_version: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[Sequence[Manifest]]:
        found = await self.list(api_version, kind, namespace=namespace, labels=labels)
        for start in range(0, len(found) or 1, 2):
            yield found[start : start + 2]

    async def create(self, manifest: Manifest) -> Manifest:
        ref = Ref.of(manifest)
        with self._call("create", ref):
            self._check(manifest)
            if ref in self.objects:
                raise AlreadyExists(f"create {ref}: 409 AlreadyExists")
            self._store(ref, copy.deepcopy(dict(manifest)))
            return self._wrote("create", ref)

    async def apply(self, manifest: Manifest) -> Manifest:
        ref = Ref.of(manifest)
        with self._call("apply", ref):
            self._check(manifest)
            metadata = manifest["metadata"]
            if "uid" in metadata and metadata["uid"] != self._value(ref, "uid"):
                raise Conflict(f"apply {ref}: 409 uid mismatch")
            if ref in self.objects and metadata.get("resourceVersion") not in (
                None,
                self._value(ref, "resourceVersion"),
            ):
                raise Conflict(f"apply {ref}: 409 the object has been modified")
            wanted = dict(leaves(strip(manifest)))
            identity = {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": {"name": ref.name}}
            result = copy.deepcopy(self.objects.get(ref, identity))
            result["metadata"] |= {"namespace": ref.namespace} if ref.namespace else {}
            for path in self._owned.get(ref, set()) - set(wanted):
                remove(result, path)
            for path, value in wanted.items():
                put(result, path, copy.deepcopy(value))
            owned_before = self._owned.get(ref)
            self._owned[ref] = set(wanted)
            changed = self._store(ref, result)
            if changed or owned_before != set(wanted):
                return self._wrote("apply", ref)
            return self._read(ref)

    async def patch(self, ref: Ref, patch: Mapping[str, Any], resource_version: str) -> Manifest:
        with self._call("patch", ref):
            result = self._read(ref)
            if result["metadata"]["resourceVersion"] != resource_version:
                raise Conflict(f"patch {ref}: 409 the object has been modified")
            if self._store(ref, merge(result, patch)):
                return self._wrote("patch", ref)
            return self._read(ref)

    async def delete(self, ref: Ref, *, uid: str | None = None) -> None:
        with self._call("delete", ref):
            if ref not in self.objects:
                return
            if uid not in (None, self._value(ref, "uid")):
                raise Conflict(f"delete {ref}: 409 uid mismatch")
            self.remove(ref)
            self.writes.append(("delete", ref))

    async def patch_status(self, ref: Ref, status: Mapping[str, Any]) -> Manifest:
        with self._call("patch_status", ref):
            assert kind_of(ref.api_version, ref.kind) in (WORLD, UNIVERSE), "the status of others is not ours"
            assert status, "an empty patch is a wasted write"
            result = self._read(ref)
            result["status"] = merge(result.get("status", {}), status)
            if self._store(ref, result):
                return self._wrote("patch_status", ref)
            return self._read(ref)

    # -- behind the reconcilers' back

    def put(self, manifest: Manifest) -> Ref:
        """Somebody creates or replaces an object; its status stays."""
        ref = Ref.of(manifest)
        status = {"status": self.objects[ref]["status"]} if "status" in self.objects.get(ref, {}) else {}
        self._store(ref, {**status, **copy.deepcopy(dict(manifest))})
        return ref

    def edit(self, ref: Ref, *steps: str, value: Any) -> None:
        """Somebody sets the field at these steps, and owns it from then on."""
        result = self._read(ref)
        put(result, steps, value)
        self._owned[ref] = {owned for owned in self._owned.get(ref, set()) if owned[: len(steps)] != steps}
        self._store(ref, result)

    def remove(self, ref: Ref) -> None:
        """Somebody deletes an object; what it alone owns goes with it."""
        uid = self.objects.pop(ref)["metadata"]["uid"]
        self._owned.pop(ref, None)
        for child, found in list(self.objects.items()):
            owners = [owner["uid"] for owner in found["metadata"].get("ownerReferences", ())]
            if owners == [uid]:
                self.remove(child)

    def namespace(self, name: str, *, terminating: bool = False, **labels: str) -> None:
        """A namespace; without it nothing can be written there."""
        metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}
        home = {"apiVersion": "v1", "kind": NAMESPACE.kind, "metadata": metadata}
        phase = "Terminating" if terminating else "Active"
        self._store(Ref("v1", NAMESPACE.kind, "", name), {**home, "status": {"phase": phase}})

    def versions(self, *, besides: Sequence[str] = ()) -> dict[Ref, str]:
        """The resourceVersion of every object but those of some kinds."""
        return {ref: o["metadata"]["resourceVersion"] for ref, o in self.objects.items() if ref.kind not in besides}

    def secrets(self) -> dict[Ref, Any]:
        """The data of every Secret."""
        return {ref: copy.deepcopy(o.get("data")) for ref, o in self.objects.items() if ref.kind == SECRET.kind}

    # -- inside

    def _call(self, verb: str, ref: Ref | None) -> _Call:
        return _Call(self, verb, ref)

    def _read(self, ref: Ref) -> dict[str, Any]:
        if ref not in self.objects:
            raise NotFound(f"get {ref}: 404 NotFound")
        found = copy.deepcopy(self.objects[ref])
        entry = {"manager": MANAGER, "operation": "Apply", "fieldsV1": fields(self._owned.get(ref, set()))}
        found["metadata"]["managedFields"] = [entry] if ref in self._owned else []
        return found

    def _value(self, ref: Ref, key: str) -> str | None:
        return self.objects[ref]["metadata"][key] if ref in self.objects else None

    def _check(self, manifest: Manifest) -> None:
        ref = Ref.of(manifest)
        kind = kind_of(ref.api_version, ref.kind)
        if "status" in manifest or manifest["metadata"].get("managedFields"):
            raise Invalid(f"apply {ref}: 422 status and managedFields are not applied")
        if kind.namespaced:
            home = self.objects.get(Ref("v1", NAMESPACE.kind, "", ref.namespace))
            if home is None:
                raise NotFound(f"create {ref}: 404 namespace {ref.namespace} not found")
            if ref not in self.objects and home["status"]["phase"] == "Terminating":
                raise Forbidden(f"create {ref}: 403 namespace {ref.namespace} is being terminated")

    def _store(self, ref: Ref, wanted: dict[str, Any]) -> bool:
        """Keeps an object if it differs; True if it did."""
        before = self.objects.get(ref)
        server = ("uid", "creationTimestamp", "resourceVersion", "generation", "managedFields")
        metadata = {k: v for k, v in wanted["metadata"].items() if k not in server}
        result = {**wanted, "metadata": metadata}
        if "spec" in result and ref.kind not in (WORLD.kind, UNIVERSE.kind):
            result["spec"] = {**result["spec"], "filledIn": "by the server"}
        if before is not None:
            known = {k: v for k, v in before["metadata"].items() if k in server}
            if {**result, "metadata": {**metadata, **known}} == before:
                return False
            bump = result.get("spec") != before.get("spec")
            known["generation"] = known["generation"] + bump
        else:
            second = f"{len(self.objects) % 60:02}"
            known = {"uid": f"uid-{self._count}", "creationTimestamp": f"2026-12-01T00:00:{second}Z", "generation": 1}
        self._count += 1
        result["metadata"] = {**metadata, **known, "resourceVersion": str(self._count)}
        self.objects[ref] = result
        return True

    def _wrote(self, verb: str, ref: Ref) -> Manifest:
        self.writes.append((verb, ref))
        return self._read(ref)


class _Call:
    """Around every call: the log, and the faults."""

    def __init__(self, port: MemoryPort, verb: str, ref: Ref | None) -> None:
        self._port, self._verb, self._ref = port, verb, ref

    def __enter__(self) -> None:
        self._port.calls.append((self._verb, self._ref))
        self._port.before(self._verb, self._ref)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._port.after(self._verb, self._ref)


def strip(manifest: Manifest) -> dict[str, Any]:
    """What of a manifest is fields: not its name, and not its guards."""
    guards = ("name", "namespace", "uid", "resourceVersion")
    body = {k: v for k, v in manifest.items() if k not in ("apiVersion", "kind")}
    return {**body, "metadata": {k: v for k, v in manifest["metadata"].items() if k not in guards}}


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every field that is no map with something in it; lists are whole."""
    if isinstance(value, Mapping) and (value or not path):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def put(into: dict[str, Any], path: Path, value: Any) -> None:
    """Sets a field."""
    for step in path[:-1]:
        into = into.setdefault(step, {})
    into[path[-1]] = value


def remove(from_: dict[str, Any], path: Path) -> None:
    """Removes a field, and maps that are empty then."""
    head, *rest = path
    if head not in from_:
        return
    if rest:
        remove(from_[head], tuple(rest))
        if not from_[head]:
            del from_[head]
    else:
        del from_[head]


def fields(owned: set[Path]) -> dict[str, Any]:
    """Field paths in the shape of `managedFields` (FieldsV1)."""
    result: dict[str, Any] = {}
    for path in owned:
        place = result
        for step in path:
            place = place.setdefault(f"f:{step}", {})
    return result


def merge(value: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(value) if isinstance(value, Mapping) else {}
    for key, inner in patch.items():
        if inner is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), inner)
    return result
