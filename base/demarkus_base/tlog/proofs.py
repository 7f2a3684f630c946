"""Proofs of inclusion and consistency: made from a table of nodes, verified from hashes alone.

Verification trusts nothing but the roots it is given; a proof of any length or content is either right or raises.

Source: RFC 9162 sections 2.1.3 and 2.1.4.
"""

from collections.abc import Sequence

from demarkus_base.tlog.tree import EMPTY_ROOT, Nodes, node_hash, range_hash


class ProofError(Exception):
    """A proof does not prove what it should."""


def inclusion_proof(nodes: Nodes, index: int, size: int) -> list[bytes]:
    """The proof that leaf `index` is in the tree of `size` leaves. Raises ValueError, and LookupError of `nodes`."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size} leaves")
    proof: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _left_size(end - start)
        if index < middle:
            proof.append(range_hash(nodes, middle, end))
            end = middle
        else:
            proof.append(range_hash(nodes, start, middle))
            start = middle
    proof.reverse()
    return proof


def consistency_proof(nodes: Nodes, first: int, second: int) -> list[bytes]:
    """The proof that the tree of `first` leaves begins that of `second`. Raises ValueError; LookupError of `nodes`."""
    if not 0 <= first <= second:
        raise ValueError(f"a tree of {first} leaves is not the beginning of one of {second}")
    if first in (0, second):
        return []
    proof: list[bytes] = []
    start, end, whole = 0, second, True
    while first != end:
        middle = start + _left_size(end - start)
        if first <= middle:
            proof.append(range_hash(nodes, middle, end))
            end = middle
        else:
            proof.append(range_hash(nodes, start, middle))
            start, whole = middle, False
    if not whole:
        proof.append(range_hash(nodes, start, end))
    proof.reverse()
    return proof


def verify_inclusion(*, leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Raise ProofError unless the leaf hash is at `index` in the tree of `size` leaves with this root."""
    if not 0 <= index < size:
        raise ProofError(f"leaf {index} is not in a tree of {size} leaves")
    position, last, current = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise ProofError("the inclusion proof is too long")
        if position & 1 or position == last:
            current = node_hash(sibling, current)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            current = node_hash(current, sibling)
        position, last = position >> 1, last >> 1
    if last:
        raise ProofError("the inclusion proof is too short")
    if current != root:
        raise ProofError(f"the inclusion proof of leaf {index} leads to another root")


def verify_consistency(
    *, first: int, first_root: bytes, second: int, second_root: bytes, proof: Sequence[bytes]
) -> None:
    """Raise ProofError unless the second tree begins with the first."""
    if not 0 <= first <= second:
        raise ProofError(f"a tree of {first} leaves is not the beginning of one of {second}")
    if first in (0, second):
        if proof:
            raise ProofError("the consistency proof is too long")
        if first_root != (second_root if first else EMPTY_ROOT):
            raise ProofError(f"two different roots of {first} leaves")
        return
    path = list(proof)
    if first & (first - 1) == 0:
        path.insert(0, first_root)  # a complete first tree is itself the first hash of the proof
    if not path:
        raise ProofError("the consistency proof is too short")
    position, last = first - 1, second - 1
    while position & 1:
        position, last = position >> 1, last >> 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            raise ProofError("the consistency proof is too long")
        if position & 1 or position == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        position, last = position >> 1, last >> 1
    if last:
        raise ProofError("the consistency proof is too short")
    if old != first_root:
        raise ProofError(f"the consistency proof leads to another root of the first {first} leaves")
    if new != second_root:
        raise ProofError(f"the consistency proof leads to another root of {second} leaves")


def _left_size(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1
