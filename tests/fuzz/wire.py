"""Requests, responses, metadata blocks, WATCH streams: what is read is what was written, or refused as documented."""

from __future__ import annotations

import re

import yaml

from mark_protocol import frontmatter, limits
from mark_protocol.changes import (
    Block,
    BlockReader,
    BlockTooLong,
    Change,
    Control,
    MalformedBlock,
    encode_change,
    encode_control,
    parse_cursor,
)
from mark_protocol.frontmatter import BlockError
from mark_protocol.request import Request, RequestError, Verb, encode_request, parse_request
from mark_protocol.response import Response, ResponseError, encode_response, parse_response
from tests.fuzz.draw import Draw, must

_OVERFLOWING = re.compile(r"\d{19}")
"""Numbers in keys that wrap around at 64 bits, as they do in Go: such keys have no order that holds for all of them."""


def requests(data: bytes) -> None:
    """Any bytes are a request or a RequestError, and a request is written as bytes that are that request."""
    try:
        request = parse_request(data)
    except RequestError as error:
        must(error.status in ("bad-request", "server-error"), error)
        return
    _request_reads_back(request)


def built_requests(data: bytes) -> None:
    """A request of any values is written as bytes that are that request, or refused."""
    draw = Draw(data)
    _request_reads_back(Request(draw.one_of(list(Verb)), "/" + draw.text(), draw.pairs(), draw.rest()))


def _request_reads_back(request: Request) -> None:
    try:
        written = encode_request(request)
    except ValueError as error:
        must("path" in str(error) or _size(request.metadata) > limits.METADATA_BLOCK, error)
        return
    again = parse_request(written)
    assert again == request, (again.verb, again.path, again.metadata, again.body)
    assert encode_request(again) == written


def _size(metadata: object) -> int:
    assert isinstance(metadata, dict)
    return len(frontmatter.encode_block(metadata))


def responses(data: bytes) -> None:
    """Any bytes are a response or a ResponseError, and a response is written as bytes that are that response."""
    try:
        response = parse_response(data)
    except ResponseError:
        return
    assert parse_response(encode_response(response)) == response
    assert isinstance(response.message, str)


def built_responses(data: bytes) -> None:
    """A response of any values is written as bytes that are that response."""
    draw = Draw(data)
    status = draw.text(3)
    metadata = {key: value for key, value in draw.pairs().items() if key != "status"}
    response = Response(status, metadata, draw.rest())
    assert parse_response(encode_response(response)) == response


def blocks(data: bytes) -> None:
    """Both ways of reading a block agree, and what was read is written in one form."""
    try:
        entries = frontmatter.decode_block(data)
    except BlockError:
        return
    written = frontmatter.encode_block(entries)
    assert frontmatter.decode_block(written) == entries
    if not _OVERFLOWING.search("".join(entries)):
        assert frontmatter.encode_block(dict(reversed(entries.items()))) == written, "the order is not settled"
    text = data.decode()
    plainly = frontmatter._decode_plain(text)
    if plainly is not None:
        assert frontmatter._decode_yaml(text) == plainly


def built_blocks(data: bytes) -> None:
    """Any entries read back as they were, also with a YAML reader that is not ours."""
    draw = Draw(data)
    entries = draw.pairs()
    written = frontmatter.encode_block(entries)
    assert frontmatter.decode_block(written) == entries
    if not written:
        return
    loaded = yaml.load(written, Loader=yaml.CBaseLoader)
    for key, value in entries.items():
        if key.isprintable() and value.isprintable() and value.isascii() and key.isascii():
            assert loaded[key] == value


def watches(data: bytes) -> None:
    """A stream gives the same blocks however it is cut into pieces."""
    size = data[0] % 7 + 1 if data else 1
    assert _read(data[1:], size) == _read(data[1:], len(data) + 1)


def _read(data: bytes, size: int) -> tuple[list[Block], bool, bytes]:
    reader = BlockReader()
    found: list[Block] = []
    try:
        for at in range(0, len(data), size):
            found += reader.feed(data[at : at + size])
        reader.finish()
    except MalformedBlock:
        return found, False, b""
    return found, True, reader.rest


def built_watches(data: bytes) -> None:
    """Changes and control blocks read back as they were."""
    draw = Draw(data)
    stream = b""
    blocks: list[Block] = []
    for _ in range(draw.below(4)):
        if draw.flag():
            block: Block = Control("ok", draw.unicode(3) if draw.flag() else None)
            assert isinstance(block, Control)
            stream += encode_control(block)
        else:
            block = Change(
                cursor=draw.unicode(3) or "e:1",
                path="/" + draw.text(),
                version=draw.below(65536) + 1,
                op=draw.unicode(2) or "publish",
                hash=draw.unicode() if draw.flag() else None,
                agent=draw.text() if draw.flag() else None,
                user=draw.text() if draw.flag() else None,
            )
            try:
                stream += encode_change(block)
            except BlockTooLong:
                continue
        blocks.append(block)
    reader = BlockReader()
    assert list(reader.feed(stream)) == blocks
    reader.finish()


def change_cursors(data: bytes) -> None:
    """A cursor is text that gives itself back."""
    text = data.decode(errors="surrogateescape")
    cursor = parse_cursor(text)
    assert cursor is None or str(cursor) == text
