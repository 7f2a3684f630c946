"""Hearing of changes: kopf lists and watches, and each event is handed on as it is.

Only kopf's lowest level is used (`on.event`): it writes nothing to objects, keeps no state, and a handler that only
enqueues can't fail. What kopf does not do is done elsewhere: retries in the queue, missed events by the resync, the
election by the lease. A watch that kopf can't go on with ends the process, which is cheap to start again. After a gap
kopf lists again and tells of everything that is there, but not of what is gone; so a second listing calls for a resync.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import kopf

from demarkus_operator.api.common import GROUP
from demarkus_operator.cluster.access import for_kopf
from demarkus_operator.cluster.kinds import UNIVERSE, WATCHED_CHILDREN, WORLD, Kind
from demarkus_operator.cluster.pulse import Pulse, session
from demarkus_operator.plan.labels import MANAGED_BY, MANAGER
from demarkus_operator.plan.objects import Manifest

RECONNECT = 0.4
"""The part of a silence that is too long after which a watch is begun anew, so that what can be mended is."""

Heard = Callable[[Manifest, bool], None]
"""Told of an object that was listed or changed, or (True) is gone."""


async def watch(
    *,
    namespaces: tuple[str, ...],
    children_kinds: Sequence[Kind],
    subjects: Heard,
    children: Heard,
    pulse: Pulse,
    missed: Callable[[], None],
) -> None:
    """Hands on the events of Worlds and Universes, and of children with our label, until a signal comes.

    `pulse` learns of every sign of life; `missed` is called when events may have been missed. Raises what kopf raises
    when a watch can't go on.
    """
    # kopf says of every event that it was handled.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    kinds = {WORLD: subjects, UNIVERSE: subjects, **dict.fromkeys(children_kinds, children)}
    pulse.expect(kind.path(namespace) for kind in kinds for namespace in namespaces or (None,))

    async def login(settings: kopf.OperatorSettings, **_: Any) -> kopf.AiohttpSession | None:
        info = await asyncio.to_thread(for_kopf, settings)
        return None if info is None else session(info, pulse, missed)

    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry, id="access")(login)
    for kind, heard in kinds.items():
        kopf.on.event(*_selector(kind), registry=registry, id=kind.plural)(_handler(kind, heard))
    await kopf.operator(
        registry=registry,
        settings=_settings(inactivity=pulse.silence * RECONNECT),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
    )


def _handler(kind: Kind, heard: Heard) -> Callable[..., Any]:
    async def handle(event: Any, **_: Any) -> None:
        # Objects of a list come without these two.
        heard({"apiVersion": kind.api_version, "kind": kind.kind, **event["object"]}, event["type"] == "DELETED")

    return handle


def _settings(*, inactivity: float) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    # Both kinds of ours have to be there at the start; that saves us the right to list all CRDs.
    settings.scanning.disabled = True
    settings.watching.server_timeout = 300
    settings.watching.connect_timeout = 10
    settings.watching.inactivity_timeout = inactivity
    # Every object gets a task for as long as it takes; without bounds, as many at once as a cluster has objects.
    settings.watching.chunk_size = 100
    settings.queueing.worker_limit = 32
    settings.queueing.idle_timeout = 0.01
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = (1, 1, 2, 3, 5)
    for kind in WATCHED_CHILDREN:
        settings.watching.label_selectors[_selector(kind)] = f"{MANAGED_BY}={MANAGER}"
    # Unused, as there is no handler that keeps state; but kopf removes a finalizer of that name from what it sees.
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=f"kopf.{GROUP}")
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=f"kopf.{GROUP}")
    return settings


def _selector(kind: Kind) -> tuple[str, str, str]:
    return kind.group, kind.api_version.rpartition("/")[2], kind.plural
