"""Names of facts, and the texts that people and clients hold for them.

A text is `<expiry>-<32 hex>`, the expiry in seconds since 1970 as ten digits. What is kept under is the name: the same
expiry with a hash of the whole text, so a reader of the store can use nothing that it finds there, and an altered
expiry leads to another name. Pure: randomness comes in as bytes.
"""

from __future__ import annotations

import hashlib
import re

ENTROPY = 16
"""Random bytes in a text: 128 bits (RFC 6749, section 10.10)."""
USER_CODE_LETTERS = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
"""What a user code is made of: nothing that is taken for something else, no vowels that make words (RFC 8628, 6.1)."""
USER_CODE_LENGTH = 8

_TEXT = re.compile(r"[0-9]{10}-[0-9a-f]{32}")
_IN_KEY = re.compile(r"(?:^|/|-)([0-9]{10})-[0-9a-f]{32}(?=/|$)")


def text(expires: int, entropy: bytes) -> str:
    """A new text; `entropy` are ENTROPY random bytes."""
    return f"{expires:010d}-{entropy.hex()}"


def name_of(presented: str) -> str | None:
    """The name under which a presented text is kept; None if it is no text of ours."""
    if not _TEXT.fullmatch(presented):
        return None
    return f"{presented[:10]}-{digest(presented)[:32]}"


def is_name(value: str) -> bool:
    """Whether a text has the form of a name."""
    return _TEXT.fullmatch(value) is not None


def digest(secret: str) -> str:
    """The SHA-256 of a secret, 64 hex."""
    return hashlib.sha256(secret.encode()).hexdigest()


def expiry_of(key: str) -> int | None:
    """When the fact of a key expires, in seconds since 1970; None if the key says nothing of it."""
    found = _IN_KEY.search(key)
    return int(found[1]) if found else None


def user_code(entropy: bytes) -> str:
    """A user code from at least 16 random bytes."""
    number = int.from_bytes(entropy)
    letters = []
    for _ in range(USER_CODE_LENGTH):
        number, index = divmod(number, len(USER_CODE_LETTERS))
        letters.append(USER_CODE_LETTERS[index])
    return "".join(letters)


def shown(code: str) -> str:
    """A user code as people read it: XXXX-XXXX."""
    return f"{code[:4]}-{code[4:]}"


def read_user_code(typed: str) -> str | None:
    """The user code that somebody typed, whatever their case, spaces and hyphens; None if it can't be one."""
    code = typed.upper().replace("-", "").replace(" ", "")
    return code if len(code) == USER_CODE_LENGTH and set(code) <= set(USER_CODE_LETTERS) else None
