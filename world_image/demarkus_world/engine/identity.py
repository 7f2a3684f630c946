"""Whose store this is: the marker `world.json`, created before anything else.

That create is the world's creation. A store that exists keeps its incarnation, whatever the configuration says; a
store of another history, or objects without a marker, are not touched. Where a store is expected none is created.
"""

import re

from demarkus_base.blobs.port import BlobError, Blobs, Exists, Integrity, NotFound, Permanent, StoreFull
from demarkus_world.engine import canonical, keys, refusals, retry
from demarkus_world.engine.model import Expected, Identity
from demarkus_world.engine.refusals import StoreDamaged, StoreForeign, StoreLost

SCHEMA = 1

_ID = re.compile("[0-9a-f]{32}")


async def establish(
    blobs: Blobs, configured: Identity, *, pause: retry.Pause, expected: Expected | None = None
) -> Identity:
    """The identity of the store, which is created with the configured one if there is nothing yet and none expected.

    Raises StoreLost, StoreForeign, StoreDamaged, StoreFull, Unavailable.
    """
    found = await _marker(blobs, pause=pause)
    if found is None:
        async for key in blobs.list(""):
            raise StoreForeign(f"the store holds objects ({key}) but no {keys.WORLD}: it was not made by a world")
        if expected is not None:
            raise StoreLost(
                f"the store is empty, but history {expected.history} with at least {expected.size} entries has to be "
                "there: restore it, or accept an empty store by taking `expect` out of the configuration"
            )
        await _create(blobs, encode(configured), pause=pause)
        found = await _marker(blobs, pause=pause)
    if found is None:
        raise StoreDamaged(f"{keys.WORLD} is missing right after it was created")
    identity = decode(found)
    if identity.history != configured.history:
        raise StoreForeign(
            f"the store belongs to history {identity.history}, this world is {configured.history}: "
            "give the world its own store, or the identity of this one"
        )
    if expected is not None and identity.history != expected.history:
        raise StoreForeign(f"the store belongs to history {identity.history}, expected is {expected.history}")
    return identity


def check_size(size: int, expected: Expected | None) -> None:
    """Raise StoreLost for a log that ends before entries that are known to have been in it."""
    if expected is not None and size < expected.size:
        raise StoreLost(
            f"the log ends at entry {size}, but {expected.size} were known: the newest ones are lost; restore them, or "
            "accept the loss by taking `expect` out of the configuration"
        )


def encode(identity: Identity) -> bytes:
    """The marker's bytes."""
    value = {"schema": SCHEMA, "history": identity.history, "incarnation": identity.incarnation}
    return canonical.encode(value if identity.parent is None else {**value, "parent": identity.parent})


def decode(data: bytes) -> Identity:
    """The identity in a marker. Raises StoreDamaged naming the field."""
    try:
        value = canonical.decode(data)
    except canonical.NotCanonical as error:
        raise StoreDamaged(f"{keys.WORLD}: {error}") from error
    if value.get("schema") != SCHEMA:
        raise StoreDamaged(f"{keys.WORLD}: schema is {value.get('schema')!r}, this version knows {SCHEMA}")
    if not {"schema", "history", "incarnation"} <= value.keys() <= {"schema", "history", "incarnation", "parent"}:
        raise StoreDamaged(f"{keys.WORLD}: fields missing or not expected")
    for field in sorted(value.keys() - {"schema"}):
        if not isinstance(value[field], str) or not _ID.fullmatch(value[field]):
            raise StoreDamaged(f"{keys.WORLD}: {field} is not 32 lower hex digits")
    if value["incarnation"] == value.get("parent"):
        raise StoreDamaged(f"{keys.WORLD}: incarnation is that of parent")
    return Identity(value["history"], value["incarnation"], value.get("parent"))


async def _marker(blobs: Blobs, *, pause: retry.Pause) -> bytes | None:
    try:
        return await retry.read(lambda: blobs.get(keys.WORLD), pause=pause)
    except NotFound:
        return None
    except Integrity as error:
        raise StoreDamaged(str(error)) from error


async def _create(blobs: Blobs, data: bytes, *, pause: retry.Pause) -> None:
    """Create the marker; whether ours or another's is there afterwards is for the caller to read."""
    attempt = 1
    while True:
        try:
            return await blobs.create(keys.WORLD, data)
        except Exists:
            return None
        except StoreFull as error:
            raise refusals.StoreFull("store is full: the world can't be created") from error
        except BlobError as error:
            if attempt == retry.ATTEMPTS or isinstance(error, Permanent):
                raise refusals.Unavailable(f"the world can't be created: {error}") from error
        await pause(retry.pause_before(attempt))
        attempt += 1
