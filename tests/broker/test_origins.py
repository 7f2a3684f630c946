"""DNS rebinding: whose Host and Origin are taken."""

from __future__ import annotations

import pytest

from demarkus_broker.origins import host_is_ours, origin_may_call

PUBLIC = "https://mark.example.com"
LOCAL = "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("host", "url", "ours"),
    [
        ("mark.example.com", PUBLIC, True),
        ("MARK.example.com", PUBLIC, True),
        ("mark.example.com:443", PUBLIC, True),
        ("mark.example.com:8443", PUBLIC, False),
        ("mark.example.com:8443", "https://mark.example.com:8443", True),
        ("mark.example.com.", PUBLIC, False),
        ("evil.example", PUBLIC, False),
        ("mark.example.com@evil.example", PUBLIC, False),
        ("evil.example/mark.example.com", PUBLIC, False),
        ("localhost", PUBLIC, False),
        ("127.0.0.1", PUBLIC, False),
        ("", PUBLIC, False),
        (None, PUBLIC, False),
        ("mark.example.com:x", PUBLIC, False),
        ("127.0.0.1:8080", LOCAL, True),
        ("localhost:8080", LOCAL, True),
        ("[::1]:8080", LOCAL, True),
        ("localhost", LOCAL, False),
        ("localhost:8081", LOCAL, False),
        ("evil.example:8080", LOCAL, False),
        ("127.0.0.1.evil.example:8080", LOCAL, False),
    ],
)
def test_hosts(host: str | None, url: str, ours: bool) -> None:
    assert host_is_ours(host, url) is ours


@pytest.mark.parametrize(
    ("origin", "url", "may"),
    [
        (None, PUBLIC, True),
        ("https://mark.example.com", PUBLIC, True),
        ("http://mark.example.com", PUBLIC, False),
        ("https://mark.example.com:8443", PUBLIC, False),
        ("https://evil.example", PUBLIC, False),
        ("https://mark.example.com.evil.example", PUBLIC, False),
        ("null", PUBLIC, False),
        ("", PUBLIC, False),
        ("http://localhost:6274", PUBLIC, True),
        ("http://127.0.0.1:6274", LOCAL, True),
        ("http://[::1]:6274", LOCAL, True),
        ("http://localhost.evil.example", LOCAL, False),
        ("http://evil@localhost", LOCAL, False),
        ("file://localhost", LOCAL, False),
        ("http://localhost/path", LOCAL, False),
    ],
)
def test_origins(origin: str | None, url: str, may: bool) -> None:
    assert origin_may_call(origin, url) is may
