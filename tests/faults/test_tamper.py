"""Whoever can write to a store and knows its format alters it: the verification names what they did, and only that.

Each case is one way to alter the same small store. Expected are the verdict, the object and what the words must tell.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.tlog.tree import Edge
from demarkus_world.engine import bundles, canonical, identity, keys, slots
from demarkus_world.engine.checkpoints import Checkpoints
from demarkus_world.engine.engine import Engine, Identity, Write
from demarkus_world.engine.notes import WorldKey
from demarkus_world.engine.verify.verify import Expected, Report, verify
from mark_protocol.versions import encode_version

OURS = Identity("a" * 32, "b" * 32)
OTHER = Identity("c" * 32, "d" * 32)
KEY = WorldKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
STRANGER = WorldKey(Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33))))
START = 1_790_000_000_000

NEWEST = "the newest version of /a.md (version 3)"
OLDEST = "the oldest retained version of /a.md (version 1)"
EARLIER = "an earlier version of /a.md (version 2)"


class Repeated:
    """Random bytes that are the same in every run, and different for every seed and call."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._calls = 0

    def __call__(self, size: int) -> bytes:
        self._calls += 1
        return hashlib.sha256(f"{self._seed} {self._calls}".encode()).digest()[:size]


async def no_pause(seconds: float) -> None: ...


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Store:
    """A store, its objects as a dictionary, the notes that were taken of it, and what is expected of it."""

    objects: dict[str, bytes]
    notes: list[str]
    history: str = OURS.history
    size: int = 0
    checkpoint: dict[str, bytes] = field(default_factory=dict)
    witnessed: list[str] = field(default_factory=list)

    async def report(self) -> Report:
        blobs = MemoryBlobs()
        for key, data in self.objects.items():
            await blobs.create(key, data)
        expected = Expected(
            history=self.history,
            key=KEY.public,
            witnessed=[(f"note-{number}", note) for number, note in enumerate(self.witnessed)],
            size=self.size,
        )
        return await verify(blobs, expected, pause=no_pause)

    # Looking.

    def blob(self, path: str, version: int) -> str:
        [key] = [key for key in self.objects if key.startswith(f"docs{path}/v{version}-")]
        return key

    def slot(self, first: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.objects[keys.slot(first)])
        return found

    # What worlds put beside the log.

    def bundle(self, first: int, last: int) -> str:
        """Copy slots into a bundle; its key."""
        starts = sorted(start for key in self.objects if (start := keys.first_of(key)) and first <= start <= last)
        bundle, data = bundles.encode(OURS.history, [self.objects[keys.slot(start)] for start in starts])
        self.put(bundle.key, data)
        return bundle.key

    def edit_bundle(self, key: str, slot: int, **entry: Any) -> None:
        """Change the first entry of a slot in a bundle."""
        value = json.loads(self.objects[key])
        value["slots"][slot]["entries"][0].update(entry)
        self.put(key, canonical.encode(value))

    def take_checkpoint(self) -> str:
        """Put the checkpoint there that the world made of the newest entry; the key of its manifest."""
        self.objects |= self.checkpoint
        [key] = [key for key in self.checkpoint if key.endswith(keys.MANIFEST)]
        return key

    # Altering.

    def put(self, key: str, data: bytes) -> None:
        self.objects[key] = data

    def drop(self, *names: str) -> None:
        for name in names:
            del self.objects[name]

    def swap(self, one: str, other: str) -> None:
        self.objects[one], self.objects[other] = self.objects[other], self.objects[one]

    def replace(self, key: str, old: bytes, new: bytes) -> None:
        assert old in self.objects[key]
        self.objects[key] = self.objects[key].replace(old, new)

    def edit(self, first: int, *, chained: bool = False, slot: Mapping[str, Any] | None = None, **entry: Any) -> None:
        """Change a slot and the first entry in it; with `chained` every link behind it is made to fit."""
        value = self.slot(first)
        value.update(slot or {})
        value["entries"][0].update(entry)
        self.put(keys.slot(first), canonical.encode(value))
        if chained:
            self.chain(first)

    def chain(self, first: int) -> None:
        """Make the links behind a slot fit it, as somebody would who knows the format."""
        hashed = slots.slot_hash(self.objects[keys.slot(first)])
        for key in sorted(self.objects):
            number = keys.first_of(key)
            if number is not None and number > first:
                value = json.loads(self.objects[key])
                value["prev"] = hashed
                self.put(key, canonical.encode(value))
                hashed = slots.slot_hash(self.objects[key])

    def rewrite(self, path: str, version: int, first: int, data: bytes) -> None:
        """Replace a version's bytes and the entry that records them, links and all."""
        old = self.blob(path, version)
        self.drop(old)
        key = keys.blob(path, version, sha256(data), "01234567")
        self.put(key, data)
        body = data.partition(b"\n---\n")[2]
        self.edit(first, chained=True, stored=sha256(data), body=sha256(body), size=len(data), blob=key)

    def truncate(self, last: int) -> None:
        """Drop every slot behind an entry."""
        self.drop(*[key for key in self.objects if (keys.first_of(key) or 0) > last])


async def filled(whose: Identity = OURS, key: WorldKey = KEY, seed: str = "store") -> Store:
    """Slots 1 to 10, one entry each but the pruning one; /p.md keeps its last two versions.

    1-3 /a.md, 4 /b.md, 5-6 /p.md, 7 and 8 /p.md and its prune, 9 /deep/c.md, 10 and 11 /b.md archived and back.
    """
    blobs, clock = MemoryBlobs(), [START]
    engine = await Engine.open(
        blobs, whose, now=lambda: clock[0], random=Repeated(seed), pause=no_pause, key=key, compatible=True
    )
    notes = [await engine.note()]

    async def write(op: str, path: str, body: bytes = b"", **metadata: str) -> None:
        clock[0] += 1000
        await engine.write(
            Write(op=op, path=path, body=body, metadata=metadata, by="kettle", credential="token")  # type: ignore[arg-type]
        )
        notes.append(await engine.note())

    for body in (b"one\n", b"two\n", b"three\n"):
        await write("publish", "/a.md", body)
    await write("publish", "/b.md", b"other\n")
    for body in (b"p1\n", b"p2\n"):
        await write("publish", "/p.md", body)
    await write("publish", "/p.md", b"p3\n", retention="2")
    await write("publish", "/deep/c.md", b"deep\n")
    await write("archive", "/b.md")
    await write("unarchive", "/b.md")
    objects = {key: await blobs.get(key) async for key in blobs.list("")}
    await Checkpoints(blobs, whose, key, random=Repeated(seed), pause=no_pause).write(engine._log.view)
    checkpoint = {key: await blobs.get(key) async for key in blobs.list(keys.CHECKPOINTS)}
    await engine.close()
    return Store(objects, notes, checkpoint=checkpoint)


Alter = Callable[[Store], Awaitable[None] | None]


@dataclass(frozen=True)
class Case:
    """One way to alter a store, and what the verification says of it: (verdict, part of the object's name)."""

    name: str
    alter: Alter
    found: tuple[tuple[str, str], ...]
    words: tuple[str, ...] = ()
    fields: tuple[str | None, ...] = ()

    async def is_named(self, store: Store) -> None:
        """What was altered is named, and nothing else."""
        altering = self.alter(store)
        if altering is not None:
            await altering
        report = await store.report()
        told = "\n".join(finding.text for finding in report.findings)
        assert [finding.fault for finding in report.findings] == [verdict for verdict, _ in self.found], told
        for finding, (_, name) in zip(report.findings, self.found, strict=True):
            assert finding.object.startswith(name), told
        for words in self.words:
            assert words in told
        if self.fields:
            assert tuple(finding.field for finding in report.findings) == self.fields, told
        assert not report.intact


CASES: list[Case] = []


def case(*found: tuple[str, str], words: tuple[str, ...] = (), fields: tuple[str | None, ...] = ()) -> Any:
    def take(alter: Alter) -> Alter:
        CASES.append(Case(alter.__name__, alter, found, words, fields))  # type: ignore[attr-defined]
        return alter

    return take


# Versions.


@case(("version-altered", "docs/a.md/v3-"), words=(f"{NEWEST} was altered after it was written",), fields=("body",))
def body_of_the_newest_version_edited(store: Store) -> None:
    store.replace(store.blob("/a.md", 3), b"three", b"THREE")


@case(("version-altered", "docs/a.md/v1-"), words=(f"{OLDEST} was altered after it was written",), fields=("body",))
def body_of_the_oldest_version_edited(store: Store) -> None:
    store.replace(store.blob("/a.md", 1), b"one", b"ONE")


@case(("version-altered", "docs/a.md/v2-"), words=(f"{EARLIER} was altered after it was written",), fields=("body",))
def body_of_an_earlier_version_edited(store: Store) -> None:
    store.replace(store.blob("/a.md", 2), b"two", b"TWO")


@case(("version-altered", "docs/a.md/v3-"), words=("its text is unchanged",), fields=("header",))
def metadata_of_the_newest_version_edited(store: Store) -> None:
    store.replace(store.blob("/a.md", 3), b"type: ", b"type: x")


@case(("version-altered", "docs/a.md/v3-"), words=("is empty",))
def newest_version_emptied(store: Store) -> None:
    store.put(store.blob("/a.md", 3), b"")


@case(("version-altered", "docs/a.md/v3-"), words=(f"{NEWEST} was altered",))
def newest_version_cut_short(store: Store) -> None:
    key = store.blob("/a.md", 3)
    store.put(key, store.objects[key][:-2])


@case(("version-altered", "docs/a.md/v2-"), words=("is no stored version any more",), fields=("header",))
def version_replaced_by_noise(store: Store) -> None:
    store.put(store.blob("/a.md", 2), bytes(range(256)))


@case(("version-missing", "docs/a.md/v3-"), words=(f"{NEWEST} is missing", "nothing in the log pruned it"))
def newest_version_dropped(store: Store) -> None:
    store.drop(store.blob("/a.md", 3))


@case(("version-missing", "docs/a.md/v1-"), words=(f"{OLDEST} is missing",))
def oldest_version_dropped(store: Store) -> None:
    store.drop(store.blob("/a.md", 1))


@case(*[("version-missing", f"docs/a.md/v{n}-") for n in (1, 2, 3)])
def document_dropped(store: Store) -> None:
    store.drop(*[store.blob("/a.md", version) for version in (1, 2, 3)])


@case(("version-missing", "docs/p.md/v2-"), words=("the oldest retained version of /p.md (version 2) is missing",))
def more_pruned_than_the_log_says(store: Store) -> None:
    store.drop(store.blob("/p.md", 2))


@case(
    ("version-altered", "docs/a.md/v1-"),
    ("version-altered", "docs/a.md/v2-"),
    words=("holds the bytes of version 2 of /a.md", "holds the bytes of version 1 of /a.md"),
)
def versions_swapped(store: Store) -> None:
    store.swap(store.blob("/a.md", 1), store.blob("/a.md", 2))


@case(("version-altered", "docs/a.md/v3-"), words=("holds the bytes of version 1 of /a.md",))
def newest_version_put_back_to_the_oldest(store: Store) -> None:
    store.put(store.blob("/a.md", 3), store.objects[store.blob("/a.md", 1)])


@case(("version-altered", "docs/a.md/v3-"), words=("holds the bytes of version 1 of /b.md",))
def version_replaced_by_another_documents(store: Store) -> None:
    store.put(store.blob("/a.md", 3), store.objects[store.blob("/b.md", 1)])


@case(("version-altered", "docs/a.md/v3-"))
async def version_of_another_world(store: Store) -> None:
    other = await filled(OTHER, seed="other")
    other.replace(other.blob("/a.md", 3), b"three", b"drei")
    store.put(store.blob("/a.md", 3), other.objects[other.blob("/a.md", 3)])


@case(("version-missing", "docs/a.md/v2-"))
def version_renamed(store: Store) -> None:
    key = store.blob("/a.md", 2)
    store.put(key.replace("v2-", "v22-"), store.objects[key])
    store.drop(key)


# Versions together with the entries that record them.


@case(
    ("version-unlinked", "docs/a.md/v3-"), words=("does not follow the version before it",), fields=("previous-hash",)
)
def earlier_version_and_its_entry_rewritten(store: Store) -> None:
    data = store.objects[store.blob("/a.md", 2)].replace(b"two", b"TWO")
    store.rewrite("/a.md", 2, 2, data)


@case(("forked", "note-0"), words=("the history was rewritten",))
def newest_version_and_its_entry_rewritten_unknown_to_anything_but_a_note(store: Store) -> None:
    data = store.objects[store.blob("/a.md", 3)].replace(b"three", b"THREE")
    store.rewrite("/a.md", 3, 3, data)
    store.witnessed = [store.notes[-1]]


@case(("version-altered", "docs/a.md/v3-"), words=("is no version a world would write",), fields=("header",))
def header_and_entry_rewritten(store: Store) -> None:
    data = store.objects[store.blob("/a.md", 3)].replace(b"type: ", b"kind: ")
    store.rewrite("/a.md", 3, 3, data)


@case(("version-unlinked", "docs/a.md/v3-"), words=("does not follow",))
def newest_version_tied_to_another_past(store: Store) -> None:
    data = encode_version(3, "0" * 64, {}, b"three\n")
    store.rewrite("/a.md", 3, 3, data)


@case(("version-altered", "docs/a.md/v3-"), words=("names another text",), fields=("body",))
def body_hash_in_the_entry_edited(store: Store) -> None:
    store.edit(3, chained=True, body="0" * 64)


@case(("version-altered", "docs/a.md/v3-"), words=("but the log says 7",), fields=("size",))
def size_in_the_entry_edited(store: Store) -> None:
    store.edit(3, chained=True, size=7)


@case(("entry-impossible", keys.slot(3)), words=("/a.md is kept in docs/b.md/",), fields=("blob",))
def entry_pointed_at_another_documents_version(store: Store) -> None:
    store.edit(3, chained=True, blob=store.blob("/b.md", 1))


# Entries and slots.


@case(("slot-altered", keys.slot(2)), words=("entry 2: altered after it was written",), fields=("prev",))
def author_in_an_entry_edited(store: Store) -> None:
    store.edit(2, by="mallory")


@case(("slot-altered", keys.slot(2)), words=("entry 2: altered after it was written",))
def time_in_an_entry_edited(store: Store) -> None:
    store.edit(2, time=START + 2001)


@case(("slot-altered", keys.slot(10)), words=("entry 10 or entry 11: altered",))
def author_in_the_newest_entry_but_one_edited(store: Store) -> None:
    store.edit(10, by="mallory")


@case(("forked", "note-0"), words=("the history was rewritten at or before entry 11",), fields=("root",))
def author_in_the_newest_entry_edited(store: Store) -> None:
    store.edit(11, by="mallory")
    store.witnessed = [store.notes[-1]]


@case(("forked", "note-0"))
def author_edited_and_all_links_made_to_fit(store: Store) -> None:
    store.edit(2, chained=True, by="mallory")
    store.witnessed = [store.notes[-1]]


@case(("slot-altered", keys.slot(3)), words=("entry 3",), fields=("prev",))
def link_of_a_slot_edited(store: Store) -> None:
    store.edit(3, slot={"prev": "0" * 64})


@case(("slot-altered", keys.slot(2)), ("slot-altered", keys.slot(3)), words=("slots were swapped",))
def slots_swapped(store: Store) -> None:
    store.swap(keys.slot(2), keys.slot(3))


@case(("slot-altered", keys.slot(4)), words=("not a JSON object",))
def slot_replaced_by_noise(store: Store) -> None:
    store.put(keys.slot(4), b"noise")


@case(("slot-altered", keys.slot(4)), words=("not the canonical form",))
def slot_written_another_way(store: Store) -> None:
    store.put(keys.slot(4), json.dumps(store.slot(4), indent=1).encode())


@case(("slot-altered", keys.slot(4)), words=("fields missing or not expected",))
def field_put_into_a_slot(store: Store) -> None:
    store.edit(4, slot={"note": "hi"})


@case(("slot-altered", keys.slot(4)), words=("title missing or not expected in publish",))
def field_put_into_an_entry(store: Store) -> None:
    store.edit(4, title="x")


@case(("slot-missing", keys.slot(1)), words=("entry 1: missing",))
def oldest_slot_dropped(store: Store) -> None:
    store.drop(keys.slot(1))


@case(("slot-missing", keys.slot(5)), words=("entries 5 to 6: missing",))
def slots_in_the_middle_dropped(store: Store) -> None:
    store.drop(keys.slot(5), keys.slot(6))


@case(("slot-altered", keys.slot(4)), words=("entry 4: altered",))
def slot_left_out_and_the_rest_moved_up(store: Store) -> None:
    """Slot 4 (/b.md) is gone, the later ones take its place; only their own hashes do not fit."""
    store.drop(keys.slot(4))
    for first in (5, 6):
        value = store.slot(first)
        value["first"] -= 1
        value["entries"][0]["seq"] -= 1
        store.put(keys.slot(first - 1), canonical.encode(value))
    store.drop(*[key for key in store.objects if (keys.first_of(key) or 0) > 5])


@case(("rolled-back", "note-0"), words=("the log ends with entry 9, the note knows of 11",), fields=("size",))
def newest_slots_dropped(store: Store) -> None:
    store.truncate(9)
    store.witnessed = [store.notes[-1]]


@case(("log-shorter", keys.slot(10)), words=("known to have had 11",))
def newest_slots_dropped_below_the_recorded_size(store: Store) -> None:
    store.truncate(9)
    store.size = 11


@case(("rolled-back", "note-0"))
def whole_log_dropped(store: Store) -> None:
    store.truncate(0)
    store.witnessed = [store.notes[-1]]


@case(("foreign", keys.slot(4)), words=(f"belongs to another world (history {OTHER.history})",), fields=("history",))
async def slot_of_another_world(store: Store) -> None:
    other = await filled(OTHER, seed="other")
    store.put(keys.slot(4), other.objects[keys.slot(4)])


@case(("slot-altered", keys.slot(4)), ("version-missing", "docs/b.md/v1-"))
async def slot_of_another_incarnation(store: Store) -> None:
    other = await filled(Identity(OURS.history, "e" * 32), seed="other")
    store.put(keys.slot(4), other.objects[keys.slot(4)])


@case(("stray", "log/0000000000000002.json.bak"), words=("not the name of a slot",))
def stranger_put_into_the_log(store: Store) -> None:
    store.put(f"{keys.slot(2)}.bak", store.objects[keys.slot(2)])


@case(("slot-missing", keys.slot(12)), words=("entries 12 to 19: missing",))
def slot_put_behind_the_end(store: Store) -> None:
    value = store.slot(11)
    value["first"] = value["entries"][0]["seq"] = 20
    store.put(keys.slot(20), canonical.encode(value))


# Entries that no world writes.


@case(
    ("entry-impossible", keys.slot(3)),
    words=("entry 3 writes version 4 of /a.md after version 2",),
    fields=("version",),
)
def version_number_skipped(store: Store) -> None:
    store.edit(3, chained=True, version=4)


@case(("entry-impossible", keys.slot(9)), words=("below the document /a.md",), fields=("path",))
def document_put_below_another(store: Store) -> None:
    store.edit(9, chained=True, path="/a.md/c.md")


@case(("entry-impossible", keys.slot(9)), words=("can't be stored",), fields=("path",))
def document_of_a_name_that_cant_be(store: Store) -> None:
    store.edit(9, chained=True, path="/deep/../c.md")


@case(
    ("entry-impossible", keys.slot(10)),
    ("entry-impossible", keys.slot(11)),
    words=("/none.md, a document that did not exist",),
    fields=("path", "op"),
)
def archive_of_nothing(store: Store) -> None:
    store.edit(10, chained=True, path="/none.md")


@case(("entry-impossible", keys.slot(11)), words=("/b.md, which was archived already",), fields=("op",))
def archived_twice(store: Store) -> None:
    store.edit(11, chained=True, op="archive")


@case(("entry-impossible", keys.slot(7)), words=("prunes /p.md up to version 3 of 3",), fields=("version",))
def more_pruned_in_the_entry(store: Store) -> None:
    value = store.slot(7)
    value["entries"][1].update(version=3)
    store.put(keys.slot(7), canonical.encode(value))
    store.chain(7)


@case(("entry-impossible", keys.slot(7)), words=("names another hash for version 1 of /p.md",), fields=("stored",))
def hash_of_what_was_pruned_edited(store: Store) -> None:
    value = store.slot(7)
    value["entries"][1].update(stored="0" * 64)
    store.put(keys.slot(7), canonical.encode(value))
    store.chain(7)


@case(("entry-impossible", keys.slot(3)), words=("older than the one before it",), fields=("time",))
def clock_turned_back(store: Store) -> None:
    store.edit(3, chained=True, time=START)


# The marker, and the whole of it.


@case(("marker", keys.WORLD), words=("world.json is missing",))
def marker_dropped(store: Store) -> None:
    store.drop(keys.WORLD)


@case(("marker", keys.WORLD), words=("the marker was altered", "fields missing"))
def marker_edited(store: Store) -> None:
    store.put(keys.WORLD, canonical.encode({"schema": 1, "history": OURS.history, "incarnation": "b" * 32, "x": 1}))


@case(("note-foreign", "note-0"), words=("the note is about",), fields=("origin",))
def incarnation_in_the_marker_edited(store: Store) -> None:
    store.put(keys.WORLD, identity.encode(Identity(OURS.history, "e" * 32)))
    store.witnessed = [store.notes[-1]]


@case(("foreign", keys.WORLD), words=("the store of another world",), fields=("history",))
async def store_replaced_by_another_worlds(store: Store) -> None:
    store.objects = (await filled(OTHER, seed="other")).objects
    store.witnessed = [store.notes[-1]]


@case(("foreign", keys.WORLD), fields=("history",))
def history_in_the_marker_edited(store: Store) -> None:
    store.put(keys.WORLD, identity.encode(OTHER))


@case(("marker", keys.WORLD), ("rolled-back", "note-0"), words=("the store is empty",))
def everything_dropped(store: Store) -> None:
    store.objects = {}
    store.witnessed = [store.notes[-1]]


@case(("rolled-back", "note-0"), words=("put back to an earlier state",))
def whole_volume_rolled_back(store: Store) -> None:
    store.witnessed = [store.notes[-1]]
    store.truncate(3)
    store.drop(*[key for key in store.objects if key.startswith(("docs/b", "docs/p", "docs/deep"))])


@case(("forked", "note-1"), words=("at or before entry 11",))
async def rolled_back_and_gone_on_differently(store: Store) -> None:
    """The older note still holds: the fork is between the two."""
    store.witnessed = [store.notes[3], store.notes[-1]]
    other = await filled(seed="another run")
    for first in (4, 5, 6, 7, 9, 10, 11):
        store.put(keys.slot(first), other.objects[keys.slot(first)])
    store.chain(3)
    store.objects = {key: data for key, data in store.objects.items() if not key.startswith("docs/") or "/a.md" in key}
    store.objects |= {
        key: data for key, data in other.objects.items() if key.startswith("docs/") and "/a.md" not in key
    }


# Bundles.

BUNDLED = keys.bundle(1, 8)


@case(("bundle", BUNDLED), words=("does not follow the one before it",))
def bundle_edited(store: Store) -> None:
    store.edit_bundle(store.bundle(1, 7), 1, by="mallory")


@case(("bundle", BUNDLED), words=("differs from the copy that the rest of the log fits",))
def newest_slot_in_a_bundle_edited(store: Store) -> None:
    store.edit_bundle(store.bundle(1, 7), -1, by="mallory")


@case(("bundle", BUNDLED), words=("not a JSON object",))
def bundle_replaced_by_noise(store: Store) -> None:
    store.put(store.bundle(1, 7), b"noise")


@case(("bundle", BUNDLED), words=(f"history is '{OTHER.history}'",))
async def bundle_of_another_world(store: Store) -> None:
    key = store.bundle(1, 7)
    value = json.loads(store.objects[key])
    value["history"] = OTHER.history
    store.put(key, canonical.encode(value))


@case(("bundle", keys.bundle(9, 11)), words=("first is 1, expected 9",))
def bundle_renamed(store: Store) -> None:
    store.put(keys.bundle(9, 11), store.objects[store.bundle(1, 7)])


@case(("slot-altered", keys.slot(2)), words=("differs from the copy that the rest of the log fits",))
def slot_edited_of_which_a_bundle_has_a_copy(store: Store) -> None:
    store.bundle(1, 7)
    store.edit(2, by="mallory")


@case(("slot-altered", keys.slot(4)), words=("not a JSON object",))
def slot_replaced_by_noise_of_which_a_bundle_has_a_copy(store: Store) -> None:
    store.bundle(1, 7)
    store.put(keys.slot(4), b"noise")


@case(("slot-altered", keys.slot(11)), words=("which differ",))
def newest_slot_edited_of_which_a_bundle_has_a_copy(store: Store) -> None:
    store.bundle(9, 11)
    store.edit(11, by="mallory")


@case(("bundle", BUNDLED), ("slot-missing", keys.slot(1)), words=("entries 1 to 8: missing",))
def the_only_copy_of_the_oldest_slots_edited(store: Store) -> None:
    key = store.bundle(1, 7)
    store.drop(*[keys.slot(first) for first in (1, 2, 3, 4, 5, 6, 7)])
    store.edit_bundle(key, 1, by="mallory")


@case(("slot-missing", keys.slot(1)), words=("entries 1 to 8: missing",))
def the_only_copy_of_the_oldest_slots_dropped(store: Store) -> None:
    store.drop(*[keys.slot(first) for first in (1, 2, 3, 4, 5, 6, 7)])


# Checkpoints and what sweeps leave.


@case(("checkpoint", "checkpoints/"), words=("not signed with this world's key",))
def checkpoint_edited(store: Store) -> None:
    key = store.take_checkpoint()
    value = json.loads(store.objects[key])
    value["time"] += 1
    store.put(key, canonical.encode(value))


@case(("checkpoint", "checkpoints/"), words=("not signed with this world's key",))
async def checkpoint_of_somebody_else(store: Store) -> None:
    store.checkpoint = (await filled(key=STRANGER)).checkpoint
    store.take_checkpoint()


@case(("checkpoint", "checkpoints/"), words=("is not what the manifest says",))
def part_of_a_checkpoint_edited(store: Store) -> None:
    manifest = store.take_checkpoint()
    [part] = [key for key in store.checkpoint if key != manifest]
    store.put(part, store.objects[part][:-1] + b"x")


@case(("checkpoint", "checkpoints/"), words=("is missing",))
def part_of_a_checkpoint_dropped(store: Store) -> None:
    manifest = store.take_checkpoint()
    store.drop(*[key for key in store.checkpoint if key != manifest])


@case(("checkpoint", "checkpoints/"), words=("it is of entry 11",))
def checkpoint_moved_to_another_place(store: Store) -> None:
    store.objects |= {key.replace(f"{11:016x}", f"{10:016x}"): data for key, data in store.checkpoint.items()}


@case(("log-shorter", "checkpoints/"), words=("the world signed a checkpoint of entry 11",))
def newest_slots_dropped_behind_a_checkpoint(store: Store) -> None:
    store.take_checkpoint()
    store.truncate(9)


@case(("forked", "checkpoints/"), words=("not those of which the world signed a checkpoint",), fields=("edge",))
def newest_entry_edited_behind_a_checkpoint(store: Store) -> None:
    store.take_checkpoint()
    store.edit(11, by="mallory")


@case(("log-shorter", keys.sweep(12)), words=("which entry 12 announced",))
def newest_slot_dropped_that_announced_a_sweep(store: Store) -> None:
    store.put(keys.sweep(12), b"{}")


# Notes.


@case(("note-forged", "note-0"), words=("this world did not sign the note",))
def note_signed_by_another_key(store: Store) -> None:
    store.witnessed = [STRANGER.note(OURS, Edge())]


@case(("note-forged", "note-0"), words=("not valid",))
def note_edited(store: Store) -> None:
    store.witnessed = [store.notes[-1].replace("\n11\n", "\n10\n")]


@case(("note-forged", "note-0"))
def note_without_its_signature(store: Store) -> None:
    store.witnessed = [store.notes[-1].partition("\n\n")[0] + "\n\n"]


@case(("note-forged", "note-0"))
def note_of_another_history(store: Store) -> None:
    store.witnessed = [KEY.note(OTHER, Edge())]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_was_altered_is_named_and_nothing_else(case: Case) -> None:
    await case.is_named(await filled())


async def test_there_are_enough_cases_and_each_has_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 40


async def test_the_store_is_intact_with_every_note_it_ever_signed() -> None:
    store = await filled()
    store.witnessed = store.notes
    store.size = 11
    report = await store.report()
    assert report.intact, [finding.text for finding in report.findings]
    assert (report.entries, report.documents, report.versions) == (11, 4, 7)


async def test_bundles_and_checkpoints_are_part_of_an_intact_store_and_slots_in_bundles_may_go() -> None:
    store = await filled()
    store.take_checkpoint()
    store.bundle(1, 7)
    assert (await store.report()).intact
    store.drop(*[keys.slot(first) for first in (1, 2, 3, 4, 5, 6, 7)])
    store.witnessed = store.notes
    report = await store.report()
    assert report.intact, [finding.text for finding in report.findings]
    assert (report.entries, report.checkpoints) == (11, 1)
