"""Numbers in the spelling that the protocol's Go peers accept, which is neither Python's nor YAML's."""

import re

_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def parse_go_integer(text: str) -> int | None:
    """A decimal integer of 64 bits: a sign and leading zeros pass, spaces, underscores and overflow do not."""
    # 19 digits hold any value in bounds; the cut keeps a long run of digits from costing quadratic time.
    if not _INTEGER.fullmatch(text) or len(text.lstrip("+-0")) > 19:
        return None
    value = int(text)
    return value if _INT64_MIN <= value <= _INT64_MAX else None
