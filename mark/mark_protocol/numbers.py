"""Numbers in the spelling that the protocol's Go peers accept, which is neither Python's nor YAML's."""

import re

_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def parse_go_integer(text: str) -> int | None:
    """A decimal integer of 64 bits: a sign and leading zeros pass, spaces, underscores and overflow do not."""
    # 19 digits hold any value in bounds; the cut keeps a long run of digits from costing quadratic time.
    if not _INTEGER.fullmatch(text) or len(text.lstrip("+-0")) > 19:
        return None
    value = int(text)
    return value if _INT64_MIN <= value <= _INT64_MAX else None


def parse_go_duration(text: str) -> float | None:
    """Seconds of a duration such as `10s`, `1m30s` or `1.5h`; `0` is none without a unit. None for other text."""
    if text in ("0", "+0"):
        return 0.0
    parts = _DURATION.findall(text) if len(text) <= 100 else []
    if not parts or "".join(parts) != text.removeprefix("+"):
        return None
    return sum(float(part.rstrip("nuµμmsh")) * _SECONDS[part.lstrip("0123456789.")] for part in parts)
