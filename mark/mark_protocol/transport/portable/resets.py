"""Stateless resets: how a server that has lost its connections tells their clients so (RFC 9000 section 10.3).

Each connection ID that is handed out comes with a token, made of the ID and a secret that outlives the process: the
key of the certificate. Who starts anew under the same key makes the same tokens, and sends them for IDs it does not
know. The name of the host is in them too, because two servers of one key must not end each other's connections.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from mark_protocol.transport.certificates import PrivateKey

TOKEN = 16
SMALLEST = 21
"""Bytes of the shortest datagram that a client takes for a reset."""
_LONGEST = 43
_PER_SECOND = 100.0

Tokens = Callable[[bytes], bytes]
"""The token of a connection ID."""


class Resets:
    """What a server of this key on this host says of connections that it does not know, now and after the next start.

    No more than a hundred leave in a second, whoever asks for them.
    """

    def __init__(self, key: PrivateKey, host: str) -> None:
        der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        self._secret = HKDF(SHA256(), 32, salt=host.encode(), info=b"mark stateless reset").derive(der)
        self._left, self._at = _PER_SECOND, 0.0

    def token(self, connection_id: bytes) -> bytes:
        """What a client is given together with this connection ID."""
        return hmac.digest(self._secret, connection_id, "sha256")[:TOKEN]

    def reply_to(self, datagram: bytes, connection_id: bytes, now: float) -> bytes | None:
        """The reset for a datagram with this ID; None if it is none of an open connection, too short, or one too many.

        It is shorter than what it answers, so that two servers never go on answering each other. `now` is in seconds.
        """
        size = min(len(datagram) - 1, _LONGEST)
        if size < SMALLEST or datagram[0] & 0xC0 != 0x40 or not self._allowed(now):
            return None
        noise = os.urandom(size - TOKEN)
        return bytes([0x40 | noise[0] & 0x3F]) + noise[1:] + self.token(connection_id)

    def _allowed(self, now: float) -> bool:
        self._left = min(_PER_SECOND, self._left + (now - self._at) * _PER_SECOND)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
