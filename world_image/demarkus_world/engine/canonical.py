"""Canonical JSON: one byte string for one value, so that objects can be hashed, compared and created twice.

ASCII only, keys sorted, no spaces, integers only, absent instead of null.
"""

import json
from collections.abc import Mapping
from typing import Any, NoReturn


class NotCanonical(ValueError):
    """Bytes that are no JSON object, or not the canonical ones of the object they mean."""


def encode(value: Mapping[str, Any]) -> bytes:
    """The canonical bytes of an object."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def decode(data: bytes) -> dict[str, Any]:
    """The object. Raises NotCanonical unless encoding it again gives the same bytes."""
    try:
        value = json.loads(data, parse_float=_no_number, parse_constant=_no_number)
        if not isinstance(value, dict) or encode(value) != data:
            raise NotCanonical("not the canonical form of a JSON object")
    except NotCanonical:
        raise
    except (ValueError, RecursionError) as error:
        raise NotCanonical("not a JSON object") from error
    return value


def _no_number(text: str) -> NoReturn:
    raise NotCanonical(f"{text} is not an integer")
