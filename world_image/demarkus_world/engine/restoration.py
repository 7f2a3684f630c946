"""restore.json of a restored store: the very slot that ends its restore, written before anything is copied.

So a restore that broke off goes on with the same slot, and who opens the store sees whether it got there: the slot is
in the log, or nothing is served.
"""

from demarkus_world.engine import keys, slots
from demarkus_world.engine.entries import Entry, Op
from demarkus_world.engine.model import Identity
from demarkus_world.engine.reader import Reader
from demarkus_world.engine.refusals import StoreDamaged, StoreUnfinished
from demarkus_world.engine.slots import Slot


def decode(data: bytes, *, history: str, key: str = keys.RESTORE) -> tuple[Slot, Entry]:
    """The slot, and the restore entry that it is for. Raises StoreDamaged naming object and field."""
    slot = slots.read(data, key=key)
    if slot.history != history:
        raise StoreDamaged(f"{key}: history is {slot.history!r}, expected {history!r}")
    entry = slot.entries[0]
    if len(slot.entries) > 1 or entry.op is not Op.RESTORE:
        raise StoreDamaged(f"{key}: it holds something else than one restore entry")
    return slot, entry


async def check_finished(reader: Reader, identity: Identity) -> None:
    """Raise StoreUnfinished for a restored store whose restore is not in its log; StoreDamaged, Unavailable."""
    if identity.parent is None:
        return
    data = await reader.object(keys.RESTORE)
    slot, entry = (None, None) if data is None else decode(data, history=identity.history)
    if entry is not None and entry.parent != identity.parent:
        raise StoreDamaged(f"{keys.RESTORE}: parent is {entry.parent!r}, {keys.WORLD} says {identity.parent!r}")
    found = await reader.copied(slot.first) if slot is not None else None
    if found is None:
        raise StoreUnfinished(
            "the store is being restored, or its restore broke off: nothing is served; "
            "run the same restore again to finish it"
        )
    if slot is not None and found != data:
        raise StoreDamaged(f"{keys.slot(slot.first)}: it is not the slot that ended the restore by {keys.RESTORE}")
