"""The log's tree, its proofs and its signed notes."""

from __future__ import annotations

import base64
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from demarkus_base.tlog.notes import Note, NoteError, claimed, opened, signed
from demarkus_base.tlog.proofs import (
    ProofError,
    consistency_proof,
    inclusion_proof,
    verify_consistency,
    verify_inclusion,
)
from demarkus_base.tlog.tree import EMPTY_ROOT, Edge, leaf_hash, node_hash, range_hash

# The well-known vectors of Certificate Transparency: eight leaves and the roots of their first 1 to 8.
LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LARGEST = 70


class Table:
    """Nodes in a dictionary, and the edge at every size."""

    def __init__(self, leaves: int) -> None:
        self.nodes: dict[tuple[int, int], bytes] = {}
        self.edges = [Edge()]
        for number in range(leaves):
            edge, completed = self.edges[-1].grown(leaf(number))
            self.nodes.update({(level, index): digest for level, index, digest in completed})
            self.edges.append(edge)

    def node(self, level: int, index: int) -> bytes:
        return self.nodes[level, index]


def leaf(number: int) -> bytes:
    return leaf_hash(number.to_bytes(4, "big"))


TABLE = Table(LARGEST)


def plain_root(leaves: list[bytes]) -> bytes:
    """RFC 6962's definition, word for word."""
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return node_hash(plain_root(leaves[:split]), plain_root(leaves[split:]))


def test_roots_are_those_of_certificate_transparency() -> None:
    edge = Edge()
    assert edge.root == EMPTY_ROOT == hashlib.sha256(b"").digest()
    for entry, root in zip(LEAVES, ROOTS, strict=True):
        edge, _ = edge.grown(leaf_hash(bytes.fromhex(entry)))
        assert edge.root.hex() == root


def test_the_edge_and_the_nodes_agree_with_the_definition() -> None:
    for size in range(LARGEST + 1):
        expected = plain_root([leaf(n) for n in range(size)])
        assert TABLE.edges[size].root == range_hash(TABLE, 0, size) == expected


def test_every_inclusion_proof_is_accepted_and_no_other() -> None:
    for size in range(1, LARGEST + 1):
        root = TABLE.edges[size].root
        for index in range(size):
            proof = inclusion_proof(TABLE, index, size)
            verify_inclusion(leaf=leaf(index), index=index, size=size, proof=proof, root=root)
            for wrong in ([*proof, proof[0] if proof else root], proof[:-1] if proof else [root]):
                with pytest.raises(ProofError):
                    verify_inclusion(leaf=leaf(index), index=index, size=size, proof=wrong, root=root)
            with pytest.raises(ProofError):
                verify_inclusion(leaf=leaf(index + 1), index=index, size=size, proof=proof, root=root)


def test_every_consistency_proof_is_accepted_and_no_other() -> None:
    for second in range(LARGEST + 1):
        for first in range(second + 1):
            roots = {"first_root": TABLE.edges[first].root, "second_root": TABLE.edges[second].root}
            proof = consistency_proof(TABLE, first, second)
            verify_consistency(first=first, second=second, proof=proof, **roots)
            with pytest.raises(ProofError):
                verify_consistency(first=first, second=second, proof=[*proof, leaf(0)], **roots)
            with pytest.raises(ProofError):
                verify_consistency(first=first, second=second, proof=proof, **{**roots, "first_root": leaf(9)})
            if first:
                with pytest.raises(ProofError):
                    verify_consistency(first=first, second=second, proof=proof, **{**roots, "second_root": leaf(9)})
            if proof:
                with pytest.raises(ProofError):
                    verify_consistency(first=first, second=second, proof=proof[:-1], **roots)


@given(st.integers(1, LARGEST), st.integers(1, LARGEST), st.lists(st.binary(min_size=32, max_size=32), max_size=8))
def test_a_forged_proof_is_refused(first: int, second: int, proof: list[bytes]) -> None:
    with pytest.raises(ProofError):
        verify_consistency(
            first=min(first, second),
            second=max(first, second),
            first_root=leaf(1),
            second_root=leaf(2),
            proof=proof,
        )


def test_an_edge_has_as_many_hashes_as_its_size_says() -> None:
    with pytest.raises(ValueError, match="right edge"):
        Edge(3, (leaf(0),))


KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01")
NOTE = Note(origin="a" * 32 + "/" + "b" * 32, size=42, root=leaf(0))
NAME = "a" * 32


def test_a_note_opens_with_its_key() -> None:
    text = signed(NOTE, name=NAME, key=KEY)
    assert opened(text, {NAME: KEY.public_key()}) == NOTE
    assert text.split("\n")[:3] == [NOTE.origin, "42", base64.b64encode(NOTE.root).decode()]


def test_what_a_note_claims_is_read_without_its_key() -> None:
    text = signed(NOTE, name=NAME, key=OTHER)
    assert claimed(text) == NOTE
    for malformed in (text.replace("\n\n", "\n"), text.replace("42", "x", 1), text.replace("\u2014", "-"), ""):
        with pytest.raises(NoteError):
            claimed(malformed)


def test_a_note_keeps_its_form() -> None:
    """The reference example of the signed-note format: key id and layout, byte for byte."""
    text = signed(NOTE, name=NAME, key=KEY)
    raw = base64.b64decode(text.rstrip("\n").rpartition(" ")[2])
    assert len(raw) == 4 + 64
    assert raw[:4] == hashlib.sha256(f"{NAME}\n\x01".encode() + KEY.public_key().public_bytes_raw()).digest()[:4]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("42", "43", 1),
        lambda text: text.replace("a/b", "c/b", 1),
        lambda text: text.replace("\n\n", "\nextension\n\n"),
        lambda text: text.replace("\n\n", "\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\u2014", "-"),
        lambda text: text[:-5] + "AAA=\n",
        lambda text: text + "x" * 5000,
        lambda text: "",
    ],
)
def test_an_altered_note_is_refused(change: object) -> None:
    assert callable(change)
    with pytest.raises(NoteError):
        opened(change(signed(NOTE, name=NAME, key=KEY)), {NAME: KEY.public_key()})


def test_a_note_of_somebody_else_is_refused() -> None:
    with pytest.raises(NoteError):
        opened(signed(NOTE, name=NAME, key=OTHER), {NAME: KEY.public_key()})


def test_a_second_signature_of_a_stranger_is_no_harm() -> None:
    text = signed(NOTE, name=NAME, key=KEY)
    stranger = signed(NOTE, name="witness", key=OTHER).rpartition("\n\n")[2]
    assert opened(text + stranger, {NAME: KEY.public_key()}) == NOTE


@given(st.text(max_size=300))
def test_any_text_is_a_note_or_refused(text: str) -> None:
    with pytest.raises(NoteError):
        opened(text, {NAME: KEY.public_key()})
