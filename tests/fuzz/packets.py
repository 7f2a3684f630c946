"""Datagrams before they belong to a connection: what a listener does with them without keeping any state."""

from __future__ import annotations

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicErrorCode, QuicPacketType

from mark_protocol.transport.portable.packets import (
    SMALLEST_FIRST_DATAGRAM,
    AddressProof,
    destination,
    first_header,
    other_versions,
    refuse,
)

_VERSIONS = QuicConfiguration().supported_versions
_PROOF = AddressProof()
_SENDER = ("127.0.0.1", 6309)


def datagrams(data: bytes) -> None:
    """Any datagram has a destination or none, and no reply to a first one is longer than it."""
    found = destination(data)
    assert found is None or found in data
    datagram = data.ljust(SMALLEST_FIRST_DATAGRAM, b"\0")
    destination(datagram)
    replies = [other_versions(datagram, _VERSIONS)]
    header = first_header(datagram)
    if header is not None and header.packet_type is QuicPacketType.INITIAL and header.version in _VERSIONS:
        if header.token:
            proof = _PROOF.check(header, _SENDER, 0.0)
            assert proof is None, "an address was proved with a token that nobody gave"
        replies += [_PROOF.demand(header, _SENDER, 0.0), refuse(header, QuicErrorCode.CONNECTION_REFUSED)]
    assert all(reply is None or len(reply) <= len(datagram) for reply in replies)
