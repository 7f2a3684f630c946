"""Certificate of cert-manager: what its issuer is asked to sign, and the Secret that it goes into."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from demarkus_operator.plan.objects import Ref
from demarkus_operator.plan.owner import Owner


def certificate(
    owner: Owner,
    ref: Ref,
    *,
    secret: Ref,
    names: Iterable[str],
    issuer: Mapping[str, str],
    duration: str,
    renew_before: str,
) -> dict[str, Any]:
    """The Certificate, for `names`, which are DNS names or IP addresses. Its Secret bears our labels, so that it can be
    told from one of somebody else.
    """
    addresses = [name for name in names if _is_address(name)]
    content: dict[str, Any] = {
        "secretName": secret.name,
        "secretTemplate": {"labels": dict(owner.labels)},
        "dnsNames": [name for name in names if name not in addresses],
        "duration": duration,
        "renewBefore": renew_before,
        "privateKey": {"algorithm": "ECDSA", "size": 256, "encoding": "PKCS8", "rotationPolicy": "Always"},
        "usages": ["digital signature", "server auth"],
        "issuerRef": dict(issuer),
    }
    if addresses:
        content["ipAddresses"] = addresses
    return owner.owned(ref, {"spec": content})


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
