"""A cluster's objects in a folder, for `demarkus up`.

There is one process (the state folder's lock). One object is one file,
`objects/<kind>.<group>/<namespace>/<name>.json`, replaced durably.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from demarkus_operator.local.objects import Changed, Objects
from demarkus_operator.local.state import make_folder, sync_folder, write_durably
from demarkus_operator.plan.objects import Manifest, Ref


class StateDamaged(Exception):
    """A file in the state folder is not what this program wrote; the message names it."""


class FileStore(Objects):
    """The port over a folder. All calls belong to one event loop; file work runs in threads."""

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        now: Callable[[], datetime],
        new_uid: Callable[[], str],
        changed: Changed,
    ) -> FileStore:
        """The objects in this folder, which is made if absent. Raises StateDamaged."""

        async def keep(ref: Ref, manifest: Manifest | None) -> None:
            await asyncio.to_thread(_keep, file_of(folder, ref), manifest)

        objects = await asyncio.to_thread(_load, folder)
        store = cls(objects, now=now, new_uid=new_uid, changed=changed, keep=keep)
        async with store._writing:
            await store._collect()  # a process killed in the middle of a deletion left the rest to us
        return store


def file_of(folder: Path, ref: Ref) -> Path:
    """The file of an object, whether there is one or not."""
    group = ref.api_version.rpartition("/")[0]
    kind = f"{ref.kind}.{group}" if group else ref.kind
    return folder / kind / (ref.namespace or "_") / f"{ref.name}.json"


def read(folder: Path, ref: Ref) -> Manifest | None:
    """One object of a state folder, which a running `up` may hold. Raises StateDamaged. Blocks."""
    file = file_of(folder, ref)
    return _read(file) if file.exists() else None


def _keep(file: Path, manifest: Manifest | None) -> None:
    if manifest is None:
        file.unlink(missing_ok=True)
        sync_folder(file.parent)
    else:
        write_durably(file, json.dumps(manifest, indent=1, sort_keys=True).encode())


def _load(folder: Path) -> dict[Ref, Manifest]:
    make_folder(folder)
    objects: dict[Ref, Manifest] = {}
    for file in folder.glob("*/*/*"):
        if file.name.startswith("."):
            file.unlink()  # what a killed write left; nothing else begins with a dot
            continue
        found = _read(file)
        objects[Ref.of(found)] = found
    return objects


def _read(file: Path) -> Manifest:
    try:
        found: Manifest = json.loads(file.read_bytes())
        Ref.of(found)
        int(found["metadata"]["resourceVersion"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateDamaged(
            f"{file} is damaged ({type(error).__name__}); restore it, or use another state folder"
        ) from error
    return found
