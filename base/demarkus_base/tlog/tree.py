"""Hashes of the Merkle tree over a log's entries, and the right edge by which it grows.

A node is named by its level and index: node (0, i) is leaf i, node (l, i) covers the 2^l leaves from i * 2^l on. Only
nodes whose leaves are all there have names; what the tree needs beyond them is computed from these. A node never
changes once it is there, so a table of nodes only grows.

Source: RFC 6962 section 2.1; RFC 9162 section 2.1.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256().digest()


class Nodes(Protocol):
    """A table of complete nodes."""

    def node(self, level: int, index: int) -> bytes:
        """The hash of a complete node. Raises LookupError for one that is not known (yet)."""
        ...


def leaf_hash(entry: bytes) -> bytes:
    """The hash of an entry: SHA-256(0x00 || entry)."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an interior node: SHA-256(0x01 || left || right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def complete_nodes(start: int, end: int) -> Iterator[tuple[int, int]]:
    """The fewest complete nodes that cover leaves `start` to `end` (exclusive), left to right.

    `start` must be a multiple of the size of the tree's part that begins there, as it is for subtrees of RFC 6962.
    """
    while start < end:
        level = (end - start).bit_length() - 1
        if start:
            level = min(level, (start & -start).bit_length() - 1)
        yield level, start >> level
        start += 1 << level


def folded(hashes: Sequence[bytes]) -> bytes:
    """The root above a right edge: the complete nodes of a range, left to right."""
    if not hashes:
        return EMPTY_ROOT
    root = hashes[-1]
    for left in reversed(hashes[:-1]):
        root = node_hash(left, root)
    return root


def range_hash(nodes: Nodes, start: int, end: int) -> bytes:
    """The hash of the subtree over leaves `start` to `end` (exclusive)."""
    return folded([nodes.node(level, index) for level, index in complete_nodes(start, end)])


@dataclass(frozen=True, slots=True)
class Edge:
    """The right edge of a tree of `size` leaves: its complete nodes, left to right. All that growing needs."""

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if len(self.hashes) != self.size.bit_count() or any(len(h) != HASH_BYTES for h in self.hashes):
            raise ValueError(f"the right edge of {self.size} leaves has {self.size.bit_count()} hashes of 32 bytes")

    @property
    def root(self) -> bytes:
        """The tree's root hash."""
        return folded(self.hashes)

    def grown(self, leaf: bytes) -> tuple["Edge", tuple[tuple[int, int, bytes], ...]]:
        """The edge with one more leaf hash, and the nodes (level, index, hash) that this completes, the leaf first."""
        hashes = list(self.hashes)
        completed = [(0, self.size, leaf)]
        level, index, current = 0, self.size, leaf
        while index & 1:
            current = node_hash(hashes.pop(), current)
            level, index = level + 1, index >> 1
            completed.append((level, index, current))
        return Edge(self.size + 1, (*hashes, current)), tuple(completed)
