"""What the world says of its history, signed with its key: notes of size and root, and statements about other objects.

A note's origin is `<history>/<incarnation>`, its key name `<history>`; its size is the sequence of the newest entry.
"""

import base64
import binascii

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from demarkus_base.tlog import notes
from demarkus_base.tlog.notes import Note, NoteError, claimed
from demarkus_base.tlog.tree import Edge
from demarkus_world.engine.model import Identity

__all__ = ["KeyFault", "Note", "NoteError", "WorldKey", "claimed", "opened", "origin", "public_key"]


class KeyFault(ValueError):
    """A file that holds no key of a world; says what it should be."""


def origin(identity: Identity) -> str:
    """What notes call the log of this store."""
    return f"{identity.history}/{identity.incarnation}"


def opened(text: str, history: str, key: Ed25519PublicKey) -> Note:
    """The note in a text, if the world of that history signed it. Raises NoteError."""
    return notes.opened(text, {history: key})


def public_key(pem: bytes) -> Ed25519PublicKey:
    """The public key in a PEM file that holds it, or the private one. Raises KeyFault."""
    if b"PRIVATE KEY" in pem:
        return WorldKey.from_pem(pem).public
    try:
        key = load_pem_public_key(pem)
    except ValueError:
        raise KeyFault("expected a PEM file with an Ed25519 key") from None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFault("expected an Ed25519 key, found one of another kind")
    return key


def vouched(history: str, statement: bytes, signature: str, key: Ed25519PublicKey) -> bool:
    """Whether the world of that history signed these bytes with `WorldKey.vouch`."""
    try:
        key.verify(base64.b64decode(signature, validate=True), _tagged(history, statement))
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


class WorldKey:
    """The key that a world signs with."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def from_pem(cls, pem: bytes) -> "WorldKey":
        """The private key in a PEM file (PKCS #8, not encrypted). Raises KeyFault."""
        try:
            key = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError):
            raise KeyFault("expected a PEM file with an unencrypted Ed25519 private key") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyFault("expected an Ed25519 private key, found one of another kind")
        return cls(key)

    @property
    def public(self) -> Ed25519PublicKey:
        """What the signatures are checked with."""
        return self._key.public_key()

    def note(self, identity: Identity, edge: Edge) -> str:
        """The signed note of the log as far as the edge goes."""
        note = Note(origin=origin(identity), size=edge.size, root=edge.root)
        return notes.signed(note, name=identity.history, key=self._key)

    def vouch(self, history: str, statement: bytes) -> str:
        """A signature (base64) under bytes that are no note, such as a checkpoint's manifest."""
        return base64.b64encode(self._key.sign(_tagged(history, statement))).decode()


def _tagged(history: str, statement: bytes) -> bytes:
    """What is signed of a statement: never the text of a note, which begins with 32 hex digits and a slash."""
    return b"demarkus statement of " + history.encode() + b"\n" + statement
