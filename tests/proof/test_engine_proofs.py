"""Notes and proofs of a running engine: signed, right for every part of the log, made anew when their table is lost."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.tlog.proofs import verify_consistency, verify_inclusion
from demarkus_base.tlog.tree import Edge
from demarkus_world.engine import bundles, notes, slots
from demarkus_world.engine.engine import NoKey, StoreDamaged
from demarkus_world.engine.nodes import NodeTable
from demarkus_world.engine.proof import leaf

WRITES = 40


async def all_leaves(blobs: MemoryBlobs) -> list[bytes]:
    found = [slots.read(await blobs.get(key), key=key) async for key in blobs.list("log/")]
    return [leaf(entry) for slot in found for entry in slot.entries]


def roots(leaves: list[bytes]) -> list[bytes]:
    """The root over the first 0, 1, 2, ... leaves."""
    edge, found = Edge(), [Edge().root]
    for hashed in leaves:
        edge, _ = edge.grown(hashed)
        found.append(edge.root)
    return found


async def filled(start: Any, a_write: Any, **given: Any) -> tuple[MemoryBlobs, Any]:
    blobs = MemoryBlobs()
    engine = await start(blobs, **given)
    for number in range(WRITES):
        await engine.write(a_write(path=f"/{number % 7}.md", body=b"%d" % number))
    return blobs, engine


def known(engine: Any) -> int:
    return int(engine._log.tree.known)


async def test_every_prefix_is_proven_to_begin_every_longer_one(start: Any, a_write: Any, wait_until: Any) -> None:
    blobs, engine = await filled(start, a_write)
    await wait_until("the nodes", lambda: known(engine) == WRITES)
    expected = roots(await all_leaves(blobs))
    for second in range(WRITES + 1):
        for first in range(second + 1):
            proof = engine.consistency(first, second)
            verify_consistency(
                first=first, first_root=expected[first], second=second, second_root=expected[second], proof=proof
            )


async def test_every_entry_is_proven_to_be_in_the_log(start: Any, a_write: Any, wait_until: Any) -> None:
    blobs, engine = await filled(start, a_write)
    await wait_until("the nodes", lambda: known(engine) == WRITES)
    leaves = await all_leaves(blobs)
    root = roots(leaves)[-1]
    for sequence, hashed in enumerate(leaves, 1):
        proof = engine.inclusion(sequence, WRITES)
        verify_inclusion(leaf=hashed, index=sequence - 1, size=WRITES, proof=proof, root=root)


async def test_the_note_is_of_the_newest_entry(start: Any, a_write: Any) -> None:
    blobs, engine = await filled(start, a_write)
    note = notes.opened(await engine.note(), engine.identity.history, engine._key.public)
    assert (note.origin, note.size) == (f"{engine.identity.history}/{engine.identity.incarnation}", WRITES)
    assert note.root == roots(await all_leaves(blobs))[-1]


async def test_the_note_knows_what_another_writer_committed(start: Any, a_write: Any) -> None:
    blobs, engine = await filled(start, a_write)
    other = await start(blobs)
    await other.write(a_write(path="/other.md"))
    note = notes.opened(await engine.note(), engine.identity.history, engine._key.public)
    assert note.size == WRITES + 1


async def test_without_a_key_nothing_is_signed(start: Any) -> None:
    engine = await start(key=None)
    with pytest.raises(NoKey, match=r"identity\.keyFile"):
        await engine.note()


async def test_sizes_the_log_does_not_have_are_refused(start: Any, a_write: Any) -> None:
    _, engine = await filled(start, a_write)
    for first, second in ((-1, 1), (2, 1), (0, WRITES + 1)):
        with pytest.raises(ValueError, match=f"the log has {WRITES} entries"):
            engine.consistency(first, second)
    for sequence, size in ((0, 1), (2, 1), (1, WRITES + 1)):
        with pytest.raises(ValueError, match=f"the log has {WRITES} entries"):
            engine.inclusion(sequence, size)


async def test_nodes_outlive_the_process(start: Any, a_write: Any, wait_until: Any, tmp_path: Path) -> None:
    blobs, engine = await filled(start, a_write, view=tmp_path)
    await wait_until("the nodes", lambda: known(engine) == WRITES)
    await engine.close()
    again = await start(blobs, view=tmp_path)
    assert known(again) == WRITES, "at once, with nothing read"
    assert again.consistency(3, WRITES)


@pytest.mark.parametrize("lost", ["removed", "of another log", "no database", "shortened", "longer than the log"])
async def test_lost_nodes_are_made_anew(start: Any, a_write: Any, wait_until: Any, tmp_path: Path, lost: str) -> None:
    nodes = tmp_path / "nodes.db"
    blobs, engine = await filled(start, a_write, view=tmp_path)
    await wait_until("the nodes", lambda: known(engine) == WRITES)
    await engine.close()
    if lost == "removed":
        nodes.unlink()
    elif lost == "no database":
        nodes.write_bytes(b"x" * 10_000)
    else:
        with sqlite3.connect(nodes) as rows:
            change = {
                "of another log": "UPDATE state SET of = 'another'",
                "shortened": "DELETE FROM nodes WHERE place > 3",
                "longer than the log": "UPDATE state SET size = 90",
            }[lost]
            rows.execute(change)
        rows.close()
    again = await start(blobs, view=tmp_path)
    expected = roots(await all_leaves(blobs))

    def proven() -> bool:
        try:
            proof = again.consistency(5, WRITES)
        except LookupError:
            return False
        verify_consistency(first=5, first_root=expected[5], second=WRITES, second_root=expected[WRITES], proof=proof)
        return True

    await wait_until("the proof", proven)


async def test_an_altered_edge_is_found_out_and_nothing_is_signed_by_it(
    start: Any, a_write: Any, wait_until: Any, tmp_path: Path
) -> None:
    """The edge lies in the view, where others may write; the log says what it has to be."""
    blobs, engine = await filled(start, a_write, view=tmp_path)
    await wait_until("the nodes", lambda: known(engine) == WRITES)
    await engine.close()
    with sqlite3.connect(tmp_path / "catalog.db") as rows:
        rows.execute("UPDATE tip SET edge = zeroblob(length(edge))")
    rows.close()
    again = await start(blobs, view=tmp_path)
    await wait_until("the fault", lambda: again._log.tree.fault)
    with pytest.raises(StoreDamaged, match="remove the view's folder"):
        await again.note()
    with pytest.raises(LookupError, match="remove the view's folder"):
        again.consistency(1, WRITES)
    await again.write(a_write(path="/more.md"))


async def test_an_altered_node_never_makes_a_wrong_proof(
    start: Any, a_write: Any, wait_until: Any, tmp_path: Path
) -> None:
    nodes = tmp_path / "nodes.db"
    blobs, engine = await filled(start, a_write, view=tmp_path)
    await wait_until("the nodes", lambda: known(engine) == WRITES)
    with sqlite3.connect(nodes) as rows:
        rows.execute("UPDATE nodes SET hash = zeroblob(32) WHERE level = 1 AND place = 1")
    rows.close()
    with pytest.raises(LookupError, match="made anew"):
        engine.consistency(2, WRITES)
    await wait_until("the nodes to be made anew", lambda: known(engine) == WRITES)
    expected = roots(await all_leaves(blobs))
    proof = engine.consistency(2, WRITES)
    verify_consistency(first=2, first_root=expected[2], second=WRITES, second_root=expected[-1], proof=proof)


async def test_nodes_that_end_within_a_slot_go_on_from_a_bundle(
    start: Any, a_write: Any, wait_until: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the nodes are there, and the slots of the others are in a bundle only."""
    blobs = MemoryBlobs()
    engine = await start(blobs)
    for number in range(4):
        await asyncio.gather(*(engine.write(a_write(path=f"/{number}-{n}.md")) for n in range(10)))
    await engine.close()
    names = [name async for name in blobs.list("log/")]
    assert len(names) < WRITES, "several entries a slot"
    bundle, data = bundles.encode(engine.identity.history, [await blobs.get(name) for name in names])
    expected = roots(await all_leaves(blobs))
    table = NodeTable(tmp_path / "nodes.db", log=notes.origin(engine.identity))
    table.add(Edge(), (await all_leaves(blobs))[:13])
    table.close()
    await blobs.create(bundle.key, data)
    for name in names[:-1]:
        await blobs.delete(name)
    monkeypatch.setattr("demarkus_world.engine.proof.LEAVES_AT_HAND", 3)
    again = await start(blobs, view=tmp_path)
    await wait_until("the nodes", lambda: known(again) == WRITES)
    proof = again.consistency(13, WRITES)
    verify_consistency(first=13, first_root=expected[13], second=WRITES, second_root=expected[-1], proof=proof)


async def test_leaves_that_are_not_at_hand_are_read_from_the_log(
    start: Any, a_write: Any, wait_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demarkus_world.engine.proof.LEAVES_AT_HAND", 3)
    monkeypatch.setattr("demarkus_world.engine.proof.BATCH", 5)
    blobs, engine = await filled(start, a_write)
    await wait_until("the nodes", lambda: known(engine) == WRITES)
    await engine.close()
    again = await start(blobs)
    with pytest.raises(LookupError, match="not yet to 40"):
        again.consistency(1, WRITES)
    await wait_until("the nodes", lambda: known(again) == WRITES)
    assert again.consistency(1, WRITES)
