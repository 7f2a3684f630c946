"""Proof Key for Code Exchange (RFC 7636), S256 only, for every client. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

_VERIFIER = re.compile(r"[A-Za-z0-9\-._~]{43,128}")
_CHALLENGE = re.compile(r"[A-Za-z0-9\-_]{43}")


def is_challenge(value: str) -> bool:
    """Whether a text can be an S256 challenge."""
    return _CHALLENGE.fullmatch(value) is not None


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).decode().rstrip("=")


def proves(verifier: str, challenge: str) -> bool:
    """Whether a verifier is the one of a challenge."""
    return _VERIFIER.fullmatch(verifier) is not None and hmac.compare_digest(challenge_of(verifier), challenge)
