"""The Merkle tree over the log: its right edge, grown with every slot taken in, and proofs from the table of its nodes.

The edge is all that a note needs and is always that of the newest entry. The table follows in the background: from the
leaves of the last slots while these are at hand, else from the log itself, as after a start from a checkpoint. Until
it has caught up with what is asked for, proofs are a LookupError: try later.
"""

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import islice

from demarkus_base.tlog.proofs import (
    ProofError,
    consistency_proof,
    inclusion_proof,
    verify_consistency,
    verify_inclusion,
)
from demarkus_base.tlog.tree import Edge, leaf_hash, range_hash
from demarkus_world.engine import canonical, entries
from demarkus_world.engine.entries import Entry
from demarkus_world.engine.nodes import NodeTable
from demarkus_world.engine.refusals import EngineError

LEAVES_AT_HAND = 8192
BATCH = 4096
PAUSE_AFTER_FAILURE = 5.0

ReadFrom = Callable[[int], AsyncIterator[Sequence[Entry]]]
"""The entries of the log from that sequence on, some at a time."""

logger = logging.getLogger(__name__)


def leaf(entry: Entry) -> bytes:
    """The leaf hash of an entry."""
    return leaf_hash(canonical.encode(entries.to_json(entry)))


class Tree:
    """The tree of one log. `take_in` is called for every slot in order; `follow` is the task that fills the table."""

    def __init__(self, table: NodeTable) -> None:
        self.edge = Edge()
        self._table = table
        self._leaves: deque[bytes] = deque(maxlen=LEAVES_AT_HAND)
        self._doubted = False
        # Whether the table was made from nothing but the log, so that the edge is wrong if the two differ.
        self._anew = False
        self.fault: str | None = None
        self._grew = asyncio.Event()

    @property
    def known(self) -> int:
        """How many leaves proofs can be made about by now."""
        return 0 if self._doubted else self._table.size

    def begin(self, edge: Edge) -> None:
        """Start behind a part of the log that is not read again."""
        self.edge = edge
        self._leaves.clear()
        self._grew.set()

    def take_in(self, taken: Iterable[Entry]) -> None:
        """Grow by the next entries of the log."""
        for entry in taken:
            hashed = leaf(entry)
            self.edge, _ = self.edge.grown(hashed)
            self._leaves.append(hashed)
        self._grew.set()

    def consistency(self, first: int, second: int) -> list[bytes]:
        """The proof that the first `first` entries begin the first `second`.

        Raises ValueError for sizes the log does not have, LookupError while the table is not as far.
        """
        if not 0 <= first <= second <= self.edge.size:
            raise ValueError(f"the log has {self.edge.size} entries, not a first part of {first} in one of {second}")
        self._reach(second)
        proof = consistency_proof(self._table, first, second)
        roots = range_hash(self._table, 0, first), range_hash(self._table, 0, second)
        try:
            verify_consistency(first=first, first_root=roots[0], second=second, second_root=roots[1], proof=proof)
        except ProofError as error:
            raise self._doubt(error) from error
        return proof

    def inclusion(self, sequence: int, size: int) -> list[bytes]:
        """The proof that the entry of that sequence is among the first `size`. Raises as `consistency` does."""
        if not 1 <= sequence <= size <= self.edge.size:
            raise ValueError(f"the log has {self.edge.size} entries, not entry {sequence} in a first part of {size}")
        self._reach(size)
        index = sequence - 1
        proof = inclusion_proof(self._table, index, size)
        hashed, root = self._table.node(0, index), range_hash(self._table, 0, size)
        try:
            verify_inclusion(leaf=hashed, index=index, size=size, proof=proof, root=root)
        except ProofError as error:
            raise self._doubt(error) from error
        return proof

    async def follow(self, read_from: ReadFrom) -> None:
        """Fill the table, for ever, unless the edge turns out to be wrong. The owner cancels it."""
        while self.fault is None:
            self._grew.clear()
            try:
                await self._catch_up(read_from)
            except (sqlite3.Error, EngineError, LookupError, ValueError) as error:
                logger.warning("the table of nodes can't be filled yet, trying again: %s", error)
                self._doubted = self._doubted or not isinstance(error, EngineError)
                await asyncio.sleep(PAUSE_AFTER_FAILURE)
                continue
            await self._grew.wait()

    def close(self) -> None:
        """Let go of the table, once nobody follows any more."""
        self._table.close()

    async def _catch_up(self, read_from: ReadFrom) -> None:
        if self._doubted or self._table.size > self.edge.size:
            await asyncio.to_thread(self._table.forget)
            self._doubted, self._anew = False, True
        edge = await asyncio.to_thread(self._table.edge)
        while edge.size < self.edge.size:
            at_hand = self.edge.size - len(self._leaves)
            if edge.size >= at_hand:
                start = edge.size - at_hand
                edge = await asyncio.to_thread(self._table.add, edge, list(islice(self._leaves, start, start + BATCH)))
            else:
                grown = await self._add_from_log(edge, read_from)
                if grown.size == edge.size:
                    raise LookupError(f"entry {edge.size + 1} can't be found in the log")
                edge = grown
        if edge.size != self.edge.size or edge.root == self.edge.root:
            return
        self._doubted = True
        if self._anew:
            self.fault = "the tree of the local view is not that of the log: remove the view's folder and start again"
            logger.error("nothing is signed or proven any more: %s", self.fault)
        else:
            logger.warning("the table of nodes is not that of the log: it is made anew")
            self._grew.set()

    async def _add_from_log(self, edge: Edge, read_from: ReadFrom) -> Edge:
        batch: list[Entry] = []
        # Another writer's slots may be there already that the edge does not count yet.
        until = self.edge.size
        async for found in read_from(edge.size + 1):
            batch += [entry for entry in found if entry.seq <= until]
            if len(batch) >= BATCH:
                edge = await asyncio.to_thread(self._add, edge, batch)
                batch = []
        return await asyncio.to_thread(self._add, edge, batch)

    def _add(self, edge: Edge, batch: Sequence[Entry]) -> Edge:
        return self._table.add(edge, map(leaf, batch))

    def _reach(self, size: int) -> None:
        if self.fault is not None:
            raise LookupError(self.fault)
        if size > self.known:
            raise LookupError(f"the tree's nodes are known up to entry {self.known}, not yet to {size}")

    def _doubt(self, error: ProofError) -> LookupError:
        """What is said of a table that makes wrong proofs; it is made anew."""
        logger.error("the table of nodes is damaged and is made anew: %s", error)
        self._doubted = True
        self._grew.set()
        return LookupError("the tree's nodes are being made anew")
