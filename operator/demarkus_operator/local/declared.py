"""What a person declared, brought into the state folder: checked as a whole first, then made the only truth.

Worlds and Universes that are not declared any more are deleted, as `kubectl delete` would; what outlives them (volumes,
identities, tokens, keys) stays in the folder, and a World that comes back finds it again.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from demarkus_operator.api.check import problems
from demarkus_operator.api.common import Problem
from demarkus_operator.cluster.kinds import NAMESPACE, UNIVERSE, WORLD
from demarkus_operator.cluster.port import Port
from demarkus_operator.local.manifests import Document, Judge, Located, ManifestError, check
from demarkus_operator.plan.labels import NAMESPACE_NAME
from demarkus_operator.plan.objects import Manifest, Ref

DEFAULT_NAMESPACE = "default"

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_KINDS = ", ".join(kind.kind for kind in (WORLD, UNIVERSE, NAMESPACE))


def judged(
    documents: Sequence[Document],
    *,
    before: Mapping[Ref, Manifest],
    namespace: str = DEFAULT_NAMESPACE,
    one_universe: bool = True,
) -> list[dict[str, Any]]:
    """The declared objects, ready to be applied. `before` has the Worlds and Universes that are there, `namespace` is
    for manifests that name none; a state folder has `one_universe`.

    Raises ManifestError with file, line and field of everything that the API server would refuse.
    """
    check(documents, _judge(before, namespace))
    objects = [_completed(document.content, namespace) for document in documents]
    _refuse_doubles(documents, objects, one_universe=one_universe)
    return objects


async def bring_in(port: Port, objects: Iterable[Manifest]) -> list[Ref]:
    """Apply what is declared, and delete the Worlds and Universes that are not; those are returned."""
    declared = {Ref.of(wanted): wanted for wanted in objects}
    namespaces = {ref.namespace for ref in declared if ref.namespace} - {
        ref.name for ref in declared if ref.kind == NAMESPACE.kind
    }
    for name in sorted(namespaces):
        await port.apply(_namespace(name, {}))
    for wanted in declared.values():
        await port.apply(wanted)
    gone = [ref for ref in await subjects(port) if ref not in declared]
    for ref in gone:
        await port.delete(ref)
    return gone


async def subjects(port: Port) -> dict[Ref, Manifest]:
    """The Worlds and Universes that are there."""
    found = [await port.list(kind.api_version, kind.kind) for kind in (UNIVERSE, WORLD)]
    return {Ref.of(manifest): manifest for manifest in itertools.chain(*found)}


def _judge(before: Mapping[Ref, Manifest], namespace: str) -> Judge:
    def judge(content: dict[str, Any]) -> Iterable[Problem]:
        kind = content.get("kind")
        if kind == NAMESPACE.kind and content.get("apiVersion") == NAMESPACE.api_version:
            return tuple(_metadata_problems(content.get("metadata"), named=True))
        if kind not in (WORLD.kind, UNIVERSE.kind):
            return (Problem(("kind",), f"expected one of {_KINDS}; nothing else is realised on one machine"),)
        # Rules about changes need an object that holds by itself.
        return (
            problems(content)
            or tuple(_metadata_problems(content["metadata"]))
            or problems(content, before.get(Ref.of(_completed(content, namespace))))
        )

    return judge


def _metadata_problems(metadata: Any, *, named: bool = False) -> Iterator[Problem]:
    """What an API server demands of the metadata of any object; `named`: its name is one of a namespace."""
    given: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    for field in ("name",) if named else ("namespace",):
        value = given.get(field)
        if named and value is None:
            yield Problem(("metadata", field), "is missing")
        elif value is not None and not (isinstance(value, str) and _LABEL.fullmatch(value)):
            message = "a namespace has at most 63 lower-case letters, digits and '-', and no '-' at its ends"
            yield Problem(("metadata", field), message)
    for field in ("labels", "annotations"):
        value = given.get(field)
        if value is not None and not _is_texts(value):
            yield Problem(("metadata", field), "expected a mapping of text to text; put numbers and true in quotes")


def _is_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for pair in value.items() for text in pair)


def _completed(content: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """The object as the API server takes it over: in a namespace, without what only a server may say."""
    given = content["metadata"]
    if content["kind"] == NAMESPACE.kind:
        return _namespace(given["name"], given.get("labels") or {})
    metadata = {key: given[key] for key in ("name", "labels", "annotations") if given.get(key)}
    metadata["namespace"] = given.get("namespace") or namespace
    return {"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": metadata, "spec": content["spec"]}


def _namespace(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": NAMESPACE.api_version,
        "kind": NAMESPACE.kind,
        "metadata": {"name": name, "labels": {**labels, NAMESPACE_NAME: name}},
    }


def _refuse_doubles(documents: Sequence[Document], objects: Sequence[Manifest], *, one_universe: bool) -> None:
    """One declaration an object, and one Universe a state folder: it has one bearer, and one person is meant by it."""
    found: list[Located] = []
    places: dict[Ref, str] = {}
    for document, wanted in zip(documents, objects, strict=True):
        ref = Ref.of(wanted)
        others = (place for other, place in places.items() if other.kind == ref.kind == UNIVERSE.kind)
        if ref in places:
            problem = Problem(("metadata", "name"), f"{ref} is declared in {places[ref]} too")
            found.append(document.located(problem))
        elif one_universe and (other := next(others, None)):
            message = f"a second Universe, besides the one in {other}; give it files and a --state of its own"
            found.append(document.located(Problem(("kind",), message)))
        places.setdefault(ref, f"{document.file}:{document.line(('kind',))}")
    if found:
        raise ManifestError(found)
