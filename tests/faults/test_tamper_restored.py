"""A restored store is altered by somebody who knows its format: the verification names what they did, and only that.

The store: the small history of `test_tamper`, restored with its newest note from a copy that lacked the last two of its
eleven entries. So it has 1 to 9, the restore entry 10, and 11 and 12, which the restored world wrote.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.tlog.tree import Edge, leaf_hash
from demarkus_world.engine import canonical, identity, keys
from demarkus_world.engine.checkpoints import Checkpoints
from demarkus_world.engine.engine import Engine, EngineError, Identity, Write
from demarkus_world.engine.notes import Note, opened
from demarkus_world.engine.restore.restore import Witness, restore
from tests.faults.test_tamper import KEY, OURS, START, STRANGER, Case, Repeated, Store, filled, no_pause, sha256

STORES: dict[str, Store] = {}
RESTORE = keys.slot(10)


@dataclass
class Restored(Store):
    """`parents` are the notes of the parent, `notes` those of the restored world, from the restore on."""

    parents: list[str] = field(default_factory=list)
    whose: Identity = OURS

    def edit_restore(self, *, everywhere: bool = False, **entry: Any) -> None:
        """Change the restore entry; `everywhere`: with what is chained behind it and with the plan."""
        value = self.slot(10)
        changed = {**value["entries"][0], **entry}
        value["entries"] = [{name: given for name, given in changed.items() if given is not None}]
        self.put(RESTORE, canonical.encode(value))
        if everywhere:
            self.chain(10)
        if everywhere:
            self.put(keys.RESTORE, self.objects[RESTORE])

    def mark(self, parent: str | None) -> None:
        """Change what the marker says of the parent."""
        self.put(keys.WORLD, identity.encode(Identity(OURS.history, self.whose.incarnation, parent)))


def root_of(store: Store, size: int) -> str:
    """The root of the first entries of an altered log."""
    edge = Edge()
    for key in sorted(store.objects):
        for item in store.slot(keys.first_of(key) or 0)["entries"] if keys.first_of(key) else ():
            if item["seq"] <= size:
                edge, _ = edge.grown(leaf_hash(canonical.encode(item)))
    return edge.root.hex()


async def put(blobs: MemoryBlobs, objects: dict[str, bytes]) -> None:
    for key, data in objects.items():
        await blobs.create(key, data)


async def gone_on(
    objects: dict[str, bytes], *writes: Write
) -> tuple[dict[str, bytes], list[str], Identity, dict[str, bytes]]:
    """The store after these writes, a note behind each, whose it is, and a checkpoint of it."""
    blobs = MemoryBlobs()
    await put(blobs, objects)
    engine = await Engine.open(
        blobs, OURS, now=lambda: START + 60_000, random=Repeated("gone on"), pause=no_pause, key=KEY
    )
    notes = [await engine.note()]
    for write in writes:
        await engine.write(write)
        notes.append(await engine.note())
    found = {key: await blobs.get(key) async for key in blobs.list("")}
    checkpoints = Checkpoints(blobs, engine.identity, KEY, random=Repeated("gone on"), pause=no_pause)
    await checkpoints.write(engine._log.view)
    checkpoint = {key: await blobs.get(key) async for key in blobs.list(keys.CHECKPOINTS)}
    await engine.close()
    return found, notes, engine.identity, checkpoint


async def restored() -> Restored:
    """A fresh copy of the restored store, which is made once."""
    if not STORES:
        parent = await filled()
        notes, whole = parent.notes, dict(parent.objects)
        parent.truncate(9)
        source, target = MemoryBlobs(), MemoryBlobs()
        await put(source, parent.objects)
        await restore(
            source,
            target,
            now=lambda: START + 30_000,
            random=Repeated("restore"),
            witness=Witness(text=notes[-1], key=KEY.public),
            pause=no_pause,
        )
        made = {key: await target.get(key) async for key in target.list("")}
        writes = (
            Write(op="publish", path="/a.md", body=b"four\n", by="kettle", credential="token"),
            Write(op="publish", path="/new.md", body=b"new\n", by="kettle", credential="token"),
        )
        found, mine, whose, checkpoint = await gone_on(made, *writes)
        STORES["restored"] = Restored(found, mine, checkpoint=checkpoint, parents=notes, whose=whose)
        STORES["parent"] = Store(whole, notes, checkpoint=parent.checkpoint)
    made_once = STORES["restored"]
    assert isinstance(made_once, Restored)
    return Restored(
        dict(made_once.objects),
        list(made_once.notes),
        checkpoint=dict(made_once.checkpoint),
        parents=list(made_once.parents),
        whose=made_once.whose,
    )


Alter = Callable[[Restored], Awaitable[None] | None]
CASES: list[Case] = []


def case(*found: tuple[str, str], words: tuple[str, ...] = (), fields: tuple[str | None, ...] = ()) -> Any:
    def take(alter: Alter) -> Alter:
        CASES.append(Case(alter.__name__, alter, found, words, fields))  # type: ignore[attr-defined, arg-type]
        return alter

    return take


# The restore entry.


@case(
    ("entry-impossible", RESTORE),
    ("slot-altered", RESTORE),
    ("marker", keys.WORLD),
    words=("entry 10: altered after it was written", "entry 10 says from ffff"),
    fields=("note", "prev", "parent"),
)
def parent_in_the_entry_edited(store: Restored) -> None:
    store.edit_restore(parent="f" * 32)


@case(
    ("marker", keys.WORLD), words=(f"from incarnation {OURS.incarnation}, entry 10 says from ffff",), fields=("parent",)
)
def parent_in_the_entry_edited_and_all_made_to_fit(store: Restored) -> None:
    store.edit_restore(everywhere=True, parent="f" * 32, note=None)


@case(("entry-impossible", RESTORE), words=("entry 10 says that entries of the root 0000",), fields=("root",))
def root_in_the_entry_edited_and_all_made_to_fit(store: Restored) -> None:
    store.edit_restore(everywhere=True, root="0" * 64)


@case(("entry-impossible", RESTORE), words=("says that 8 entries were restored, before it are 9",), fields=("size",))
def size_in_the_entry_edited_and_all_made_to_fit(store: Restored) -> None:
    store.edit_restore(everywhere=True, size=8, lost=3)


@case(
    ("entry-impossible", RESTORE),
    words=("entry 10 says that 1 entries were lost, its note knows of 11",),
    fields=("lost",),
)
def entries_lost_lowered_and_all_made_to_fit(store: Restored) -> None:
    store.edit_restore(everywhere=True, lost=1)


@case(("entry-impossible", RESTORE), ("slot-altered", RESTORE), words=("entry 10: altered",), fields=("lost", "prev"))
def entries_lost_lowered(store: Restored) -> None:
    store.edit_restore(lost=0)


@case(
    ("rolled-back", "note-0"),
    words=("knows of 11 entries", "of which 9 were restored", "tells of 0 that were lost"),
    fields=("size",),
)
def entries_lost_and_the_witness_left_out_and_all_made_to_fit(store: Restored) -> None:
    store.edit_restore(everywhere=True, lost=0, note=None)
    store.witnessed = [store.parents[-1]]


@case(("forked", "note-0"), words=("not those that the world signed",), fields=("root",))
def entries_lost_raised_unknown_to_anything_but_a_note(store: Restored) -> None:
    store.edit_restore(everywhere=True, lost=5)
    store.witnessed = [store.notes[-1]]


@case(("entry-impossible", RESTORE), words=("has a witnessed note that is none",), fields=("note",))
def witness_in_the_entry_edited(store: Restored) -> None:
    store.edit_restore(everywhere=True, note="nothing")


@case(("entry-impossible", RESTORE), words=("which was not restored",), fields=("note",))
def witness_of_another_incarnation(store: Restored) -> None:
    store.edit_restore(everywhere=True, note=KEY.note(Identity(OURS.history, "e" * 32), Edge()))


@case(("note-forged", RESTORE), words=("this world did not sign the note in entry 10",), fields=("note",))
def witness_signed_by_somebody_else(store: Restored) -> None:
    store.edit_restore(everywhere=True, note=STRANGER.note(OURS, Edge()), lost=2)


@case(("entry-impossible", RESTORE), words=("first 3 entries are not those here",), fields=("note",))
def witness_of_another_past(store: Restored) -> None:
    edge = Edge()
    for leaf in (b"1" * 32, b"2" * 32, b"3" * 32):
        edge, _ = edge.grown(leaf)
    store.edit_restore(everywhere=True, note=KEY.note(OURS, edge))


@case(("marker", keys.RESTORE), words=("are not the same: one of them was altered",), fields=(None,))
def author_put_into_the_entry_and_what_is_behind_made_to_fit(store: Restored) -> None:
    store.edit(10, chained=True, by="mallory")


@case(("slot-altered", RESTORE), words=("entry 10: altered after it was written",), fields=("prev",))
def author_put_into_the_entry(store: Restored) -> None:
    store.edit(10, by="mallory")


# The restore entry dropped, doubled, put elsewhere.


@case(("slot-missing", RESTORE), words=("entry 10: missing",))
def restore_entry_dropped(store: Restored) -> None:
    store.drop(RESTORE)


@case(("restore-unfinished", keys.WORLD), words=("dropped with all behind it",), fields=("parent",))
def restore_entry_and_all_behind_it_dropped(store: Restored) -> None:
    store.truncate(9)
    store.drop(store.blob("/a.md", 4), store.blob("/new.md", 1))


@case(("restore-unfinished", keys.WORLD), ("rolled-back", "note-0"), fields=("parent", "size"))
def restore_entry_and_all_behind_it_dropped_beside_a_note(store: Restored) -> None:
    store.truncate(9)
    store.witnessed = [store.notes[-1]]


@case(("restore-unfinished", keys.WORLD), words=("the log does not",))
def restore_entry_left_out_and_the_rest_moved_up(store: Restored) -> None:
    store.drop(RESTORE)
    before = store.objects[keys.slot(9)]
    for first in (11, 12):
        value = store.slot(first)
        value["first"] -= 1
        value["entries"][0]["seq"] -= 1
        store.put(keys.slot(first - 1), canonical.encode(value))
    store.drop(keys.slot(12))
    value = store.slot(10)
    value["prev"] = sha256(before)
    store.put(keys.slot(10), canonical.encode(value))
    store.chain(10)


def slipped_in(store: Restored, first: int, **entry: Any) -> None:
    """Put a second restore entry there, and move up what is behind it."""
    behind = [number for key in sorted(store.objects, reverse=True) if (number := keys.first_of(key) or 0) >= first]
    for number in behind:
        value = store.slot(number)
        value["first"] += 1
        for item in value["entries"]:
            item["seq"] += 1
            if item["op"] == "restore":
                item["size"] += 1
        store.put(keys.slot(number + 1), canonical.encode(value))
        store.drop(keys.slot(number))
    last = max(number for key in store.objects if (number := keys.first_of(key) or 0) < first)
    made = {
        "seq": first,
        "time": store.slot(last)["entries"][-1]["time"],
        "op": "restore",
        "path": "/",
        "operation": "9" * 32,
        "parent": "c" * 32,
        "size": first - 1,
        "root": "0" * 64,
        "lost": 0,
    }
    value = {**store.slot(last), "first": first, "entries": [{**made, **entry}]}
    value["prev"] = sha256(store.objects[keys.slot(last)])
    store.put(keys.slot(first), canonical.encode(value))
    store.chain(first)


@case(
    ("entry-impossible", keys.slot(5)),
    ("entry-impossible", keys.slot(11)),
    words=("entry 5 says that entries of the root 0000", "entry 11 says that entries of the root"),
    fields=("root", "root"),
)
def second_restore_entry_slipped_in(store: Restored) -> None:
    slipped_in(store, 5)


@case(
    ("entry-impossible", keys.slot(5)),
    ("entry-impossible", keys.slot(11)),
    ("forked", "note-0"),
    fields=("root", "root", "root"),
)
def second_restore_entry_slipped_in_beside_a_note_of_the_parent(store: Restored) -> None:
    slipped_in(store, 5)
    store.witnessed = [store.parents[6]]


@case(("marker", keys.WORLD), words=("entry 13 says from cccc", "slipped in"), fields=("parent",))
async def second_restore_entry_put_behind_the_end(store: Restored) -> None:
    note: Note = opened(store.notes[-1], OURS.history, KEY.public)
    slipped_in(store, 13, root=note.root.hex())


@case(
    ("entry-impossible", keys.slot(13)),
    words=("names an incarnation that an earlier restore ended",),
    fields=("parent",),
)
async def restore_entry_repeated_behind_the_end(store: Restored) -> None:
    note: Note = opened(store.notes[-1], OURS.history, KEY.public)
    slipped_in(store, 13, root=note.root.hex(), parent=OURS.incarnation)


@case(("entry-impossible", RESTORE), words=("among entries that came of something else",), fields=("op",))
def restore_entry_in_one_slot_with_another(store: Restored) -> None:
    value = store.slot(10)
    value["entries"] += store.slot(11)["entries"]
    store.put(RESTORE, canonical.encode(value))
    store.drop(keys.slot(11))
    store.chain(10)


# The marker and the plan.


@case(("marker", keys.WORLD), words=("from incarnation eeee", f"says from {OURS.incarnation}"), fields=("parent",))
def parent_in_the_marker_edited(store: Restored) -> None:
    store.mark("e" * 32)


@case(("marker", keys.WORLD), words=("was restored from none",), fields=("parent",))
def parent_in_the_marker_dropped(store: Restored) -> None:
    store.mark(None)


@case(("marker", keys.WORLD), words=("incarnation is that of parent",))
def parent_and_incarnation_in_the_marker_made_one(store: Restored) -> None:
    store.put(
        keys.WORLD,
        canonical.encode({"schema": 1, "history": OURS.history, "incarnation": "e" * 32, "parent": "e" * 32}),
    )


@case(("note-foreign", "note-0"), words=("the note is about",), fields=("origin",))
def incarnation_in_the_marker_edited(store: Restored) -> None:
    store.put(keys.WORLD, identity.encode(Identity(OURS.history, "e" * 32, OURS.incarnation)))
    store.witnessed = [store.notes[-1]]


@case(("marker", keys.WORLD), words=("from none, entry 10 says",), fields=("parent",))
def marker_of_the_parent_put_there(store: Restored) -> None:
    store.put(keys.WORLD, identity.encode(OURS))


@case(("marker", keys.RESTORE), words=("restore.json is missing",))
def plan_dropped(store: Restored) -> None:
    store.drop(keys.RESTORE)


@case(("marker", keys.RESTORE), words=("restore.json and entry 10 are not the same",))
def plan_edited(store: Restored) -> None:
    store.replace(keys.RESTORE, b'"lost":2', b'"lost":3')


@case(("restore-unfinished", keys.WORLD), fields=("parent",))
def marker_of_a_restored_store_on_one_that_never_was(store: Restored) -> None:
    store.objects = {**STORES["parent"].objects, keys.WORLD: store.objects[keys.WORLD]}


# What the parent left, and what the notes say.


@case(("checkpoint", "checkpoints/"), words=(f"incarnation is '{OURS.incarnation}'",))
def checkpoint_of_the_parent_put_there(store: Restored) -> None:
    store.objects |= STORES["parent"].checkpoint


@case(
    ("slot-altered", keys.slot(11)),
    ("entry-impossible", keys.slot(11)),
    words=("takes out of the archive /b.md, which was not archived",),
)
def slots_of_the_parent_put_back(store: Restored) -> None:
    """Its entry 11, which was lost, in place of the one that the restored world wrote."""
    parent = STORES["parent"].objects
    store.put(keys.slot(11), parent[keys.slot(11)])


@case(("forked", "note-0"), words=("not those that the world signed",), fields=("root",))
def entry_of_the_parent_edited_and_all_made_to_fit_but_a_note_of_it(store: Restored) -> None:
    store.edit(2, chained=True, by="mallory")
    store.edit_restore(everywhere=True, root=root_of(store, 9))
    store.witnessed = [store.parents[3]]


@case(("entry-impossible", RESTORE), words=("says that entries of the root",), fields=("root",))
def entry_of_the_parent_edited_and_all_made_to_fit_but_the_restore(store: Restored) -> None:
    store.edit(2, chained=True, by="mallory")
    store.put(keys.RESTORE, store.objects[RESTORE])


@case(("version-altered", "docs/a.md/v2-"), words=("an earlier version of /a.md (version 2) was altered",))
def version_that_was_restored_edited(store: Restored) -> None:
    store.replace(store.blob("/a.md", 2), b"two", b"TWO")


@case(("version-missing", "docs/deep/c.md/v1-"), words=("is missing",))
def version_that_was_restored_dropped(store: Restored) -> None:
    store.drop(store.blob("/deep/c.md", 1))


@case(("note-foreign", "note-0"), fields=("origin",))
def note_of_a_sister(store: Restored) -> None:
    """Another restore of the same parent."""
    store.witnessed = [KEY.note(Identity(OURS.history, "e" * 32), Edge())]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_was_altered_is_named_and_nothing_else(case: Case) -> None:
    await case.is_named(await restored())


async def test_the_restored_store_is_intact_with_every_note_of_both_lives() -> None:
    store = await restored()
    store.objects |= store.checkpoint
    store.witnessed = store.parents + store.notes
    report = await store.report()
    assert report.intact, [finding.text for finding in report.findings]
    assert (report.entries, report.notes, report.checkpoints) == (12, 11 + 3, 1)


@pytest.mark.parametrize(
    "alter",
    [
        parent_in_the_entry_edited_and_all_made_to_fit,
        root_in_the_entry_edited_and_all_made_to_fit,
        size_in_the_entry_edited_and_all_made_to_fit,
        author_put_into_the_entry_and_what_is_behind_made_to_fit,
        restore_entry_dropped,
        restore_entry_and_all_behind_it_dropped,
        second_restore_entry_slipped_in,
        restore_entry_in_one_slot_with_another,
        parent_in_the_marker_edited,
        plan_dropped,
        plan_edited,
    ],
    ids=lambda alter: alter.__name__,
)
async def test_a_world_does_not_serve_what_it_sees_was_altered(alter: Alter) -> None:
    store = await restored()
    alter(store)
    blobs = MemoryBlobs()
    await put(blobs, store.objects)
    with pytest.raises(EngineError):
        await Engine.open(blobs, OURS, now=lambda: START + 90_000, random=Repeated("late"), pause=no_pause, key=KEY)
