"""Quantities are understood and spelled as the API server does it."""

from __future__ import annotations

import pytest

from demarkus_operator.api.quantities import canonical, number_of_bytes


@pytest.mark.parametrize(
    ("written", "read_back"),
    [
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1000M", "1G"),
        ("1500M", "1500M"),
        ("1000000", "1M"),
        ("1048577", "1048577"),
        ("1048576", "1048576"),
        ("1024Pi", "1Ei"),
    ],
)
def test_spelling_is_that_of_the_api_server(written: str, read_back: str) -> None:
    assert canonical(written) == read_back
    assert number_of_bytes(written) == number_of_bytes(read_back)


@pytest.mark.parametrize("text", ["", "Gi", "1.5Gi", "10gb", "-1Gi", "1e3"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        number_of_bytes(text)
