"""A history's log that proves itself, or lies, without a World."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from demarkus_base.tlog.notes import Note, signed
from demarkus_base.tlog.proofs import consistency_proof
from demarkus_base.tlog.tree import Edge, leaf_hash
from demarkus_operator.plan import witness
from demarkus_operator.plan.witness import Record

HISTORY, LIFE, OTHER_LIFE = "0a" * 16, "1b" * 16, "2c" * 16
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@dataclass
class Log:
    """A log that proves itself, or lies."""

    life: str = LIFE
    key: Ed25519PrivateKey = KEY
    history: str = HISTORY
    edges: list[Edge] = field(default_factory=lambda: [Edge()])
    nodes: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def node(self, level: int, index: int) -> bytes:
        return self.nodes[level, index]

    def grow(self, *entries: str) -> Log:
        for entry in entries:
            edge, nodes = self.edges[-1].grown(leaf_hash(entry.encode()))
            self.edges.append(edge)
            self.nodes |= {(level, index): hash_ for level, index, hash_ in nodes}
        return self

    def testifies(self, since: Record, *, time: datetime = NOON) -> witness.Testimony:
        edge = self.edges[-1]
        note = Note(origin=f"{self.history}/{self.life}", size=edge.size, root=edge.root)
        first = since.size
        proof = consistency_proof(self, first, edge.size) if first <= edge.size else []
        return witness.Testimony(
            time=time, note=signed(note, name=self.history, key=self.key), first=first, proof=tuple(proof)
        )
