"""Parameters of a request: form-encoded, each at most once (RFC 6749, 3.1 and 3.2). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from demarkus_broker.oauth.errors import Code, OAuthError

MAX_BYTES = 64 << 10
"""Bytes of a form, or of a query."""
MAX_FIELDS = 50

_REPEATABLE = frozenset({"resource"})  # RFC 8707, 2


class Parameters:
    """What was sent, without the parameters that were sent empty: those count as left out."""

    def __init__(self, values: Mapping[str, list[str]]) -> None:
        self._values = values

    def get(self, name: str) -> str | None:
        """A parameter's value."""
        values = self._values.get(name)
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        """All values of a parameter that may be repeated."""
        return self._values.get(name, [])

    def require(self, name: str) -> str:
        """A parameter's value. Raises OAuthError if it was not sent."""
        value = self.get(name)
        if value is None:
            raise OAuthError(Code.INVALID_REQUEST, f"{name} is missing")
        return value


def read(text: bytes) -> Parameters:
    """Take a form or query apart. Raises OAuthError for what is no form, or where something is sent twice."""
    if len(text) > MAX_BYTES:
        raise OAuthError(Code.INVALID_REQUEST, f"more than {MAX_BYTES} bytes of parameters")
    try:
        pairs = parse_qsl(
            text.decode("ascii"), keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise OAuthError(Code.INVALID_REQUEST, "the parameters are not form-encoded UTF-8") from None
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        if "\0" in value:
            raise OAuthError(Code.INVALID_REQUEST, "a parameter holds a NUL")
        if name in values and name not in _REPEATABLE:
            raise OAuthError(Code.INVALID_REQUEST, "a parameter is sent more than once")
        if value:
            values.setdefault(name, []).append(value)
        else:
            values.setdefault(name, [])
    return Parameters(values)
