"""What a browser keeps for the gateway while somebody signs in: sealed, so that it is neither read nor altered there.

Any replica opens what another one sealed, since the key is a file. A seal is for one purpose and has an end. AES-256
in GCM under a key of its own for each purpose. Pure: the nonce comes in as a parameter.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE = 12
"""Random bytes for a seal."""
MAX_LENGTH = 8192


class Purpose(StrEnum):
    """What is sealed. What was sealed for one purpose does not open for another."""

    CONSENT = "consent"
    LOGIN = "login"
    DEVICE = "device"
    PROVIDER_TOKEN = "provider-token"


def seal(value: Mapping[str, Any], *, key: bytes, purpose: Purpose, expires: int, nonce: bytes) -> str:
    """Seal a JSON object until `expires` (seconds since 1970)."""
    text = json.dumps({"value": value, "expires": expires}, separators=(",", ":")).encode()
    sealed = nonce + AESGCM(_key(key, purpose)).encrypt(nonce, text, None)
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def opened(sealed: str, *, key: bytes, purpose: Purpose, now: float) -> dict[str, Any] | None:
    """What was sealed; None if it was not for this purpose, or by others, or is over."""
    if len(sealed) > MAX_LENGTH or not sealed.isascii():
        return None
    try:
        raw = base64.b64decode(sealed + "=" * (-len(sealed) % 4), altchars=b"-_", validate=True)
        text = AESGCM(_key(key, purpose)).decrypt(raw[:NONCE], raw[NONCE:], None)
    except (ValueError, InvalidTag):
        return None
    content = json.loads(text)
    value = content["value"]
    return value if content["expires"] > now and isinstance(value, dict) else None


def _key(key: bytes, purpose: Purpose) -> bytes:
    return hmac.new(key, f"seal {purpose}".encode(), hashlib.sha256).digest()
