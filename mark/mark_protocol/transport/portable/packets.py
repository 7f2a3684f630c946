"""Packets that a listener answers without keeping any state: version negotiation, Retry, refusal."""

from __future__ import annotations

import os
from dataclasses import dataclass

from aioquic._buffer import Buffer
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import (
    QuicErrorCode,
    QuicFrameType,
    QuicHeader,
    QuicPacketType,
    encode_quic_retry,
    encode_quic_version_negotiation,
    pull_quic_header,
)
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.retry import QuicRetryTokenHandler

from mark_protocol.transport.portable.udp import SocketAddress

ID_LENGTH = 8
"""Bytes of the connection IDs that we hand out."""

SMALLEST_FIRST_DATAGRAM = 1200
"""A client's first datagram is at least this long (RFC 9000 section 14.1), so that no reply is longer than it."""


def destination(datagram: bytes) -> bytes | None:
    """The connection ID that a datagram is for; None if it is no QUIC at all."""
    if not datagram:
        return None
    if not datagram[0] & 0x80:
        return datagram[1 : 1 + ID_LENGTH] if datagram[0] & 0x40 and len(datagram) > ID_LENGTH else None
    if len(datagram) < 7 or len(datagram) < 7 + datagram[5]:
        return None
    return datagram[6 : 6 + datagram[5]]


def first_header(datagram: bytes) -> QuicHeader | None:
    """The header of a datagram that may begin a connection; None if it cannot."""
    if len(datagram) < SMALLEST_FIRST_DATAGRAM or not datagram[0] & 0x80:
        return None
    try:
        return pull_quic_header(Buffer(data=datagram), host_cid_length=ID_LENGTH)
    except ValueError:
        return None


def other_versions(datagram: bytes, supported: list[int]) -> bytes | None:
    """Version Negotiation for a first datagram of a version that is not supported (RFC 9000 section 6.1); else None.

    Only what all versions have in common is read (RFC 8999).
    """
    if len(datagram) < SMALLEST_FIRST_DATAGRAM or not datagram[0] & 0x80:
        return None
    version = int.from_bytes(datagram[1:5], "big")
    if not version or version in supported:  # 0 is a Version Negotiation itself, and must not be answered by one
        return None
    end = 6 + datagram[5]
    source = datagram[end + 1 : end + 1 + datagram[end]]
    return encode_quic_version_negotiation(
        source_cid=datagram[6:end], destination_cid=source, supported_versions=supported
    )


def refuse(header: QuicHeader, code: QuicErrorCode) -> bytes:
    """An Initial packet that closes a connection which never existed here (RFC 9000 section 10.2.3)."""
    assert header.version is not None
    crypto = CryptoPair()
    crypto.setup_initial(cid=header.destination_cid, is_client=False, version=header.version)
    builder = QuicPacketBuilder(
        host_cid=header.destination_cid,
        is_client=False,
        max_datagram_size=SMALLEST_FIRST_DATAGRAM,
        peer_cid=header.source_cid,
        version=header.version,
    )
    builder.start_packet(QuicPacketType.INITIAL, crypto)
    frame = builder.start_frame(QuicFrameType.TRANSPORT_CLOSE, capacity=32)
    for value in (code, QuicFrameType.PADDING, 0):  # code, the frame that caused it, length of the reason
        frame.push_uint_var(value)
    datagrams, _ = builder.flush()
    return datagrams[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a returned Retry token proves: the IDs that the handshake has to repeat."""

    original: bytes
    retried: bytes


class AddressProof:
    """Retry (RFC 9000 section 8.1.2): the client returns a token that only its true address has received."""

    def __init__(self) -> None:
        self._tokens = QuicRetryTokenHandler()

    def demand(self, header: QuicHeader, sender: SocketAddress, now: float) -> bytes:
        """A Retry packet for this client."""
        assert header.version is not None
        retried = os.urandom(ID_LENGTH)
        token = self._tokens.create_token(
            address=sender,
            original_destination_connection_id=header.destination_cid,
            retry_source_connection_id=retried,
            now=now,
        )
        return encode_quic_retry(
            version=header.version,
            source_cid=retried,
            destination_cid=header.source_cid,
            original_destination_cid=header.destination_cid,
            retry_token=token,
        )

    def check(self, header: QuicHeader, sender: SocketAddress, now: float) -> Proof | None:
        """What the token of a first packet proves; None if it is none of ours, or too old, or of another address."""
        try:
            original = self._tokens.validate_token(
                address=sender, destination_cid=header.destination_cid, token=header.token, now=now
            )
        except ValueError:
            return None
        return Proof(original=original, retried=header.destination_cid)
