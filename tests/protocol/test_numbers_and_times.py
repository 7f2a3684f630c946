"""Integers and times are taken exactly where the Go peers take them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_protocol.numbers import parse_go_duration, parse_go_integer
from mark_protocol.times import format_rfc3339, parse_rfc3339


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("+2", 2),
        ("-2", -2),
        ("02", 2),
        ("0" * 100 + "2", 2),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("99999999999999999999", None),
        ("9" * 100_000, None),
        ("", None),
        ("+", None),
        (" 2", None),
        ("2 ", None),
        ("2\n", None),
        ("2.0", None),
        ("1_0", None),
        ("0x1", None),
        ("\u0662", None),
    ],
    ids=lambda value: str(value)[:24],
)
def test_integers(text: str, value: int | None) -> None:
    assert parse_go_integer(text) == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_64_bit_integer_is_read(value: int) -> None:
    assert parse_go_integer(str(value)) == value


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-30T09:00:00Z", datetime(2026, 11, 30, 9, tzinfo=UTC)),
        ("2026-11-30T09:00:00+02:00", datetime(2026, 11, 30, 7, tzinfo=UTC)),
        ("2026-11-30T09:00:00-00:30", datetime(2026, 11, 30, 9, 30, tzinfo=UTC)),
        ("2026-11-30T09:00:00.123456789Z", datetime(2026, 11, 30, 9, 0, 0, 123456, tzinfo=UTC)),
        ("2026-11-30T09:00:00,5Z", datetime(2026, 11, 30, 9, 0, 0, 500000, tzinfo=UTC)),
        ("2026-11-30T9:00:00Z", datetime(2026, 11, 30, 9, tzinfo=UTC)),
    ],
)
def test_times(text: str, instant: datetime) -> None:
    assert parse_rfc3339(text) == instant


@pytest.mark.parametrize(
    "text",
    [  # A33
        "",
        "2026-11-30",
        "2026-11-30T09:00:00",
        "2026-11-30t09:00:00Z",
        "2026-11-30T09:00:00z",
        "2026-11-30 09:00:00Z",
        "2026-11-30T09:00Z",
        "2026-11-30T09:00:00+0200",
        "2026-11-30T09:00:00+25:00",
        "2026-11-30T24:00:00Z",
        "2026-11-30T09:00:60Z",
        "2026-02-29T09:00:00Z",
        "2026-1-30T09:00:00Z",
        "20261130T090000Z",
        " 2026-11-30T09:00:00Z",
        "2026-11-30T09:00:00Z\n",
        "0001-01-01T00:00:00+01:00",
        "yesterday",
    ],
)
def test_a_33_what_is_no_time(text: str) -> None:
    assert parse_rfc3339(text) is None


@given(st.integers(-62135596800, 253402300799), st.integers(0, 999))
def test_whole_seconds_read_back(seconds: int, milliseconds: int) -> None:
    instant = parse_rfc3339(format_rfc3339(seconds * 1000 + milliseconds))
    assert instant is not None
    assert instant.timestamp() == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("1m30s", 90), ("1.5h", 5400), ("500ms", 0.5), ("0", 0)]
    + [(text, None) for text in ("", "10", "s", "1x", "-1s", "1s ", "1..s")],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_go_duration(text) == seconds
