"""An issuer of cert-manager, played: it signs what a Certificate asks for, by an authority between it and its root."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


class Issuer:
    """One with a root of its own; its certificates hold for `lifetime` from `now`."""

    def __init__(self, name: str, now: datetime) -> None:
        self._root_key = rsa.generate_private_key(65537, 2048)
        self.root = _sign(f"{name} root", self._root_key, f"{name} root", self._root_key, now, timedelta(days=3650))
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._between = _sign(f"{name} 1", self._key, f"{name} root", self._root_key, now, timedelta(days=1800))
        self._name = f"{name} 1"

    @property
    def fingerprint(self) -> str:
        """What the operator calls its authority."""
        return self.root.fingerprint(SHA256()).hex()[:32]

    def secret(self, certificate: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The Secret that a Certificate asks for."""
        spec = certificate["spec"]
        assert spec["privateKey"]["algorithm"] == "ECDSA"
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in spec["dnsNames"]]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in spec.get("ipAddresses", ())]
        hours = int(spec["duration"].removesuffix("h0m0s"))
        leaf = _sign("", key, self._name, self._key, now, timedelta(hours=hours), names)
        chain = leaf.public_bytes(Encoding.PEM) + self._between.public_bytes(Encoding.PEM)
        data = {
            "tls.crt": chain,
            "tls.key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            "ca.crt": self.root.public_bytes(Encoding.PEM),
        }
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {
                "name": spec["secretName"],
                "namespace": certificate["metadata"]["namespace"],
                "labels": dict(spec["secretTemplate"]["labels"]),
            },
            "data": {field: base64.b64encode(value).decode() for field, value in data.items()},
        }


def answer(cluster: Any, issuer: Issuer, name: str, namespace: str = "acme") -> None:
    """cert-manager makes what a Certificate in a dictionary cluster asks for."""
    certificate = cluster.get("Certificate", name, namespace)
    cluster.put(issuer.secret(certificate, cluster.now))
    cluster.set_status("Certificate", name, ready(certificate), namespace)


def ready(certificate: Mapping[str, Any], *, status: bool = True, message: str = "") -> dict[str, Any]:
    """The status of a Certificate, as cert-manager writes it."""
    condition = {
        "type": "Ready",
        "status": "True" if status else "False",
        "reason": "Ready" if status else "Pending",
        "message": message or "Certificate is up to date and has not expired",
        "observedGeneration": certificate["metadata"].get("generation", 1),
    }
    return {"conditions": [condition]}


def _sign(
    subject: str,
    key: Key,
    issuer: str,
    issuer_key: Key,
    now: datetime,
    lifetime: timedelta,
    names: list[x509.GeneralName] | None = None,
) -> x509.Certificate:
    begin = now.replace(microsecond=0)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + lifetime)
        .add_extension(x509.BasicConstraints(ca=names is None, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if names is not None:
        # Without a name of its own, as a Certificate without a commonName has it.
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
    return builder.sign(issuer_key, SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else [])
