"""What aioquic is told: TLS, timers and windows of either side, made of our limits."""

from __future__ import annotations

import ssl

from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from mark_protocol.transport.certificates import ParsedCertificate
from mark_protocol.transport.port import ALPN, Limits, Trust, Untrusted
from mark_protocol.transport.portable.packets import ID_LENGTH


def of_listener(certificate: ParsedCertificate, limits: Limits) -> QuicConfiguration:
    """The accepting side, answering with this certificate."""
    configuration = _common(limits, is_client=False)
    configuration.certificate = certificate.leaf
    configuration.certificate_chain = list(certificate.rest)
    configuration.private_key = certificate.key
    return configuration


def of_dialer(server_name: str, trust: Trust, limits: Limits) -> QuicConfiguration:
    """The dialing side. Raises Untrusted if the roots of `trust` are not PEM certificates."""
    configuration = _common(limits, is_client=True)
    configuration.server_name = server_name
    configuration.verify_mode = ssl.CERT_NONE if trust.insecure else ssl.CERT_REQUIRED
    if trust.roots is not None and not trust.insecure:
        configuration.cadata = _plain_pem(trust.roots)
    return configuration


def _common(limits: Limits, *, is_client: bool) -> QuicConfiguration:
    return QuicConfiguration(
        is_client=is_client,
        alpn_protocols=[ALPN],
        congestion_control_algorithm=limits.congestion,
        connection_id_length=ID_LENGTH,
        idle_timeout=limits.idle_timeout,
        max_data=limits.connection_window,
        max_stream_data=limits.stream_window,
        max_datagram_size=limits.datagram_start,
    )


def _plain_pem(roots: bytes) -> bytes:
    """The same certificates in the one form that aioquic reads: no comments, no CRLF, a line end behind the last."""
    try:
        found = x509.load_pem_x509_certificates(roots)
    except ValueError as error:
        raise Untrusted(f"the given roots are not PEM certificates: {error}") from error
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in found)
