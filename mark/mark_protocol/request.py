"""Requests: one line, an optional metadata block, a body; to bytes and back.

Source: Mark protocol, request grammar.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mark_protocol import frontmatter, limits, status
from mark_protocol.status import Status

_CONTROLS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


class Verb(StrEnum):
    """What a request asks for. Exact and in upper case on the wire."""

    FETCH = "FETCH"
    LIST = "LIST"
    VERSIONS = "VERSIONS"
    PUBLISH = "PUBLISH"
    ARCHIVE = "ARCHIVE"
    APPEND = "APPEND"
    LOOKUP = "LOOKUP"
    WATCH = "WATCH"


_VERBS = {verb.value.encode(): verb for verb in Verb}


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `path` is as it was sent; bytes of it that are no UTF-8 are surrogate escapes.

    Metadata and body stay out of the representation: they may hold a credential.
    """

    verb: Verb
    path: str
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


class RequestError(Exception):
    """Bytes that are no request: the status and the message to answer with. Never holds anything that was sent."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


def _malformed() -> RequestError:
    return RequestError(Status.BAD_REQUEST, status.BAD_REQUEST)


def _unreadable() -> RequestError:
    return RequestError(Status.SERVER_ERROR, status.COULD_NOT_READ_REQUEST)


def parse_request(data: bytes) -> Request:
    """The request in all the bytes of a stream.

    Raises RequestError: `bad-request` for faults of grammar, `server-error` for limits and an empty stream.
    """
    end = data.find(b"\n", 0, limits.REQUEST_LINE + 1)
    if end >= 0:
        line = data[: end - 1] if data[end - 1 : end] == b"\r" else data[:end]
        rest = end + 1
    else:
        if not data or len(data) > limits.REQUEST_LINE:
            raise _unreadable()
        line, rest = data, len(data)
    if len(data) - rest > limits.REQUEST_PAYLOAD:
        raise _unreadable()

    name, space, raw_path = line.partition(b" ")
    verb = _VERBS.get(name)
    if verb is None or not space or not is_sendable_path(raw_path):
        raise _malformed()

    try:
        block, body = frontmatter.split(data, rest)
        if len(body) > limits.BODY or (block is not None and len(block) > limits.METADATA_BLOCK):
            raise _unreadable()
        metadata = {} if block is None else frontmatter.decode_block(block)
    except frontmatter.BlockError:
        raise _malformed() from None
    return Request(verb, raw_path.decode(errors="surrogateescape"), metadata, body)


def is_sendable_path(raw: bytes) -> bool:
    """Whether these bytes can be the path of a request line."""
    return raw.startswith(b"/") and len(raw) <= limits.PATH and not _CONTROLS.search(raw)


def encode_request(request: Request) -> bytes:
    """The bytes of a request. Raises ValueError for what no server could read back as this request."""
    path = request.path.encode(errors="surrogateescape")
    if not is_sendable_path(path):
        raise ValueError(f"a path begins with / and has at most {limits.PATH} bytes and no control characters")
    if len(request.body) > limits.BODY:
        raise ValueError(f"a body has at most {limits.BODY} bytes, this one has {len(request.body)}")
    head = request.verb.value.encode() + b" " + path + b"\n"
    if request.metadata:
        block = frontmatter.encode_block(request.metadata)
        if len(block) > limits.METADATA_BLOCK:
            raise ValueError(f"the metadata of a request has at most {limits.METADATA_BLOCK} bytes")
        head += frontmatter.FENCE + block + frontmatter.FENCE
    elif request.body.startswith(frontmatter.FENCE):
        # Without an empty block in front, the body's own front matter would be read as the request's metadata.
        head += frontmatter.FENCE + b"\n" + frontmatter.FENCE
    return head + request.body
