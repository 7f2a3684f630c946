"""`python -m tests.view.crashing FOLDER SLOTS [in]`: writes slots into a view until it is killed.

Prints the sequence after every slot; with `in` it stops inside the transaction of the slot after the last.
"""

import hashlib
import sys
import time
from pathlib import Path

from demarkus_base.tlog.tree import Edge, leaf_hash
from demarkus_world.engine.entries import Entry, Op
from demarkus_world.engine.model import Identity
from demarkus_world.view.catalog import Described
from demarkus_world.view.local import LocalView
from demarkus_world.view.reads import Tip

IDENTITY = Identity("a" * 32, "b" * 32)
DOCUMENTS = 7


def slot_of(number: int) -> list[Entry]:
    """Three entries, the same in every process."""
    found = []
    for seq in range(3 * number + 1, 3 * number + 4):
        digest = hashlib.sha256(str(seq).encode()).hexdigest()
        document, version = (seq - 1) % DOCUMENTS, (seq - 1) // DOCUMENTS + 1
        found.append(
            Entry(
                seq=seq,
                time=seq,
                op=Op.PUBLISH,
                path=f"/d{document % 2}/{document}.md",
                version=version,
                operation="c" * 32,
                stored=digest,
                body=digest,
                size=10,
                blob=f"docs/{seq}",
            )
        )
    return found


def write(view: LocalView, number: int, edge: Edge, *, stop: bool = False) -> Edge:
    with view.slot():
        for entry in slot_of(number):
            view.apply(entry, Described(metadata={"n": str(entry.seq)}, title="T", tags=(), importance=0.5))
            edge, _ = edge.grown(leaf_hash(str(entry.seq).encode()))
        if stop:
            print("inside", flush=True)
            time.sleep(60)
        view.move_tip(Tip(sequence=edge.size, first=edge.size - 2, slot="d" * 64, time=edge.size, edge=edge))
    return edge


def main(folder: Path, slots: int, *, stop: bool) -> None:
    view = LocalView(folder, IDENTITY, boot="boot")
    edge = view.tip.edge
    for number in range(edge.size // 3, slots):
        edge = write(view, number, edge)
        print(edge.size, flush=True)
    if stop:
        write(view, slots, edge, stop=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), stop=len(sys.argv) > 3)
