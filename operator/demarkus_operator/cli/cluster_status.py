"""`demarkus status --cluster`: Worlds and Universes of a cluster, with all their conditions at a glance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click

from demarkus_operator.cli.cluster import Place, run
from demarkus_operator.cli.options import Mistake, NothingRuns, aligned
from demarkus_operator.plan.objects import Manifest
from demarkus_operator.reconcile.resync import listing


def show(place: Place, *, as_json: bool, of: str | None) -> bool:
    """Prints what there is; whether all of it is ready. Raises Failure, Mistake and NothingRuns."""
    found = run(_listed(place))
    if of is not None:
        click.echo(_url(found, of))
    elif as_json:
        click.echo(json.dumps([_facts(one) for one in found], indent=2))
    elif found:
        click.echo("\n".join(_table(found)))
    if not found:
        where = "in any namespace" if place.all_namespaces else f"in namespace {place.namespace}"
        raise NothingRuns(f"there is no World and no Universe {where}")
    return all(_condition(one, "Ready").get("status") == "True" for one in found)


async def _listed(place: Place) -> list[Manifest]:
    async with place.port() as port:
        return await listing(port, () if place.all_namespaces else (place.namespace,))


def _url(found: Sequence[Manifest], of: str) -> str:
    for one in found:
        if of.lower() == _name(one).lower() and (url := _status(one).get("endpoint")):
            return str(url)
    raise Mistake(f"{of} has no URL here; there is: " + ", ".join(map(_name, found)))


def _table(found: Sequence[Manifest]) -> Iterator[str]:
    rows = [("KIND", "NAMESPACE", "NAME", "READY", "REASON", "VERSION", "HISTORY", "URL")]
    for one in found:
        ready, proven = _condition(one, "Ready"), _condition(one, "HistoryVerified")
        status = _status(one)
        rows.append(
            (
                one["kind"],
                one["metadata"]["namespace"],
                one["metadata"]["name"],
                ready.get("status", "-"),
                ready.get("reason", "-"),
                status.get("version", "-"),
                proven.get("reason", "-"),
                status.get("endpoint", "-"),
            )
        )
    yield from aligned(rows)
    for one in found:
        for entry in _status(one).get("conditions", ()):
            if entry.get("message"):
                yield f"{_name(one)} {entry['type']}={entry['status']} {entry['reason']}: {entry['message']}"


def _facts(one: Manifest) -> dict[str, Any]:
    metadata = one["metadata"]
    names = {"kind": one["kind"], "namespace": metadata["namespace"], "name": metadata["name"]}
    return {**names, "generation": metadata.get("generation"), "status": _status(one)}


def _name(one: Manifest) -> str:
    return f"{one['kind']}/{one['metadata']['name']}"


def _status(one: Manifest) -> dict[str, Any]:
    return dict(one.get("status") or {})


def _condition(one: Manifest, type_: str) -> dict[str, Any]:
    return next((entry for entry in _status(one).get("conditions", ()) if entry["type"] == type_), {})
