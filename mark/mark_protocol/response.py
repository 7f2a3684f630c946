"""Responses: a metadata block that names the status, and a body; to bytes and back.

Source: Mark protocol, response grammar.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from mark_protocol import frontmatter, limits
from mark_protocol.status import error_body


@dataclass(frozen=True, slots=True)
class Response:
    """One response. `metadata` is without the status; `status` is text, since a peer may know more of them."""

    status: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)

    @classmethod
    def error(cls, status: str, message: str) -> Self:
        """The response that reports a failure: no metadata, and a body with the message."""
        return cls(status, {}, error_body(status, message))

    @property
    def message(self) -> str:
        """What an error's body says below its title; the body's text where it has none."""
        text = self.body.decode(errors="replace").strip()
        title, _, message = text.partition("\n")
        return message.strip() if title.startswith("# ") and message.strip() else text


class ResponseError(Exception):
    """Bytes that are no response."""


def encode_head(response: Response) -> bytes:
    """The fenced block alone: what goes before the body, which can then be sent without a copy."""
    entries = {**response.metadata, "status": response.status} if response.metadata else {"status": response.status}
    return frontmatter.FENCE + frontmatter.encode_block(entries) + frontmatter.FENCE


def encode_response(response: Response) -> bytes:
    """All the bytes of a response."""
    return encode_head(response) + response.body


def parse_response(data: bytes) -> Response:
    """The response in all the bytes of a stream. The status is empty where the bytes name none; that is a failure.

    Raises ResponseError for an open or broken block, and for more bytes than a reader accepts.
    """
    if len(data) > limits.RESPONSE:
        raise ResponseError(f"the response is longer than {limits.RESPONSE} bytes")
    try:
        block, body = frontmatter.split(data)
        entries = {} if block is None else frontmatter.decode_block(block)
    except frontmatter.BlockError as error:
        raise ResponseError(f"the response cannot be read: {error}") from None
    status = entries.pop("status", "")
    return Response(status, entries, body)
