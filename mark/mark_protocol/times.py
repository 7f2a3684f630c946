"""Times on the wire: RFC 3339, written in UTC with whole seconds, read as strictly as Go peers read them."""

import re
from datetime import UTC, datetime, timedelta

# Go takes one digit for the hour and a comma before the fraction; both are kept so that a request means the same
# to every server. Lower-case letters, a missing zone and a bare date are not RFC 3339 to it.
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)


_EPOCH = datetime(1970, 1, 1)


def parse_rfc3339(text: str) -> datetime | None:
    """The instant in UTC, or None where the text is no RFC 3339 time; fractions are cut to microseconds."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, offset_hours, offset_minutes = match.groups()[6:]
    microsecond = int(fraction[:6].ljust(6, "0")) if fraction else 0
    offset = timedelta()
    if sign:
        if int(offset_hours) > 24 or int(offset_minutes) > 60:
            return None
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes))
    try:
        local = datetime(year, month, day, hour, minute, second, microsecond, tzinfo=UTC)
        return local + offset if sign == "-" else local - offset
    except (ValueError, OverflowError):
        return None


def format_rfc3339(milliseconds: int) -> str:
    """A time since 1970 in milliseconds as `2026-11-30T09:00:00Z`; the part below a second is cut."""
    return (_EPOCH + timedelta(seconds=milliseconds // 1000)).isoformat() + "Z"
