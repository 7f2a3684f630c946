"""URLs, paths, keys of a store, cursors of LIST, numbers and times."""

from __future__ import annotations

from datetime import UTC, datetime

from mark_protocol.cursors import CursorError, decode_cursor, encode_cursor
from mark_protocol.numbers import parse_go_duration, parse_go_integer
from mark_protocol.paths import (
    clean,
    content_address,
    decode_key,
    encode_key,
    has_parent_segment,
    split_version,
    unstorable,
)
from mark_protocol.times import format_rfc3339, parse_rfc3339
from mark_protocol.urls import MarkURL, URLError, parse_url, resolve
from tests.fuzz.draw import Draw

URL_PIECES = ("mark://", "MARK://", "host", "Host", ":6309", ":7000", "[::1]", "[fe80::1%25eth0]", "user@", "/", "a b",
              "%20", "%2F", "%", "..", ".", "//", "?q", "#f", "é", "\udcff", ":", "@", "[", "]", "mark:")  # fmt: skip


def urls(data: bytes) -> None:
    """Any text is a URL or a URLError; a URL's identity is the URL without its fragment, and is its own identity."""
    draw = Draw(data)
    text = draw.text(12, pieces=URL_PIECES) if draw.flag() else draw.rest().decode(errors="surrogateescape")
    try:
        url = parse_url(text)
    except URLError:
        return
    assert url.path
    again = parse_url(url.identity)
    assert again == MarkURL(url.host, url.port, url.path), again
    assert again.identity == url.identity
    assert parse_url(f"mark://{url._bracketed.replace('%', '%25')}:{url.port}").authority == url.authority


def references(data: bytes) -> None:
    """Where a reference leads is canonical, and leads there again."""
    draw = Draw(data)
    base = MarkURL("host", 6309, clean("/" + draw.text(4, pieces=URL_PIECES)))
    led = resolve(base, draw.text(10, pieces=URL_PIECES))
    if led is not None:
        assert led.path == clean(led.path)
        assert resolve(base, led.identity) == MarkURL(led.host, led.port, led.path)


def paths(data: bytes) -> None:
    """The canonical path is its own canonical path, and the other readings of a path hold together."""
    draw = Draw(data)
    raw = draw.text(
        12, pieces=("/", "/", "//", ".", "..", "a", "v1", "v01", "v+3", "versions", "%", "\udcff", "sha256-")
    )
    path = clean(raw)
    assert clean(path) == path
    assert path.startswith("/")
    segments = path.split("/")[1:]
    assert path == "/" or not {"", ".", ".."} & set(segments)
    if not has_parent_segment(raw):
        assert segments == [part for part in raw.split("/") if part not in ("", ".")] or path == "/"
    versioned = split_version(path)
    if versioned is not None:
        assert versioned[1] >= 1
        assert path.startswith(versioned[0] + "/v")
        assert split_version(f"{versioned[0]}/v{versioned[1]}") == versioned
    address = content_address(path)
    assert address is None or path == f"/sha256-{address}"
    if unstorable(path) is None:
        assert decode_key(encode_key(path)) == path
        assert unstorable(path, versions_segment=True) is None
        assert len(path.encode()) <= 900


def keys(data: bytes) -> None:
    """Text is a key or a ValueError, and a key is the key of its path."""
    draw = Draw(data)
    key = draw.text(
        10, pieces=("/", "a", "%", "%25", "%41", "%0A", "%C2%80", "%FF", "%EF%BF%BE", "%c2%80", "é", "\x01")
    )
    try:
        path = decode_key(key)
    except ValueError:
        return
    assert encode_key(path) == key


def list_cursors(data: bytes) -> None:
    """Text is a cursor for its directory or a CursorError, and a cursor gives back what went into it."""
    draw = Draw(data)
    archived = draw.flag()
    directory, last = clean("/" + draw.unicode(3)), draw.unicode(3).replace("/", "") or "a"
    cursor = encode_cursor(directory, last, include_archived=archived)
    assert decode_cursor(cursor, directory, include_archived=archived) == last
    try:
        found = decode_cursor(draw.rest().decode(errors="surrogateescape"), directory, include_archived=archived)
    except CursorError:
        return
    assert "/" not in found


def numbers(data: bytes) -> None:
    """Integers and durations as Go peers spell them are read or None."""
    text = data.decode(errors="surrogateescape")
    number = parse_go_integer(text)
    assert number is None or parse_go_integer(str(number)) == number
    duration = parse_go_duration(text)
    assert duration is None or duration >= 0


def times(data: bytes) -> None:
    """A time is read or None, and to the second it is written as itself."""
    instant = parse_rfc3339(data.decode(errors="surrogateescape"))
    if instant is not None and instant.year >= 1970:
        seconds = int((instant - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
        assert parse_rfc3339(format_rfc3339(seconds * 1000)) == instant.replace(microsecond=0)
