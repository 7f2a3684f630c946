"""The address a tool is given: `mark://<world>/<path>`, for some tools with `#<section>` behind it.

Pure. Wrong names are refused, never repaired: what an agent asks for is what it gets, or an error that says why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from mark_protocol.paths import clean, has_parent_segment
from mark_protocol.request import is_sendable_path
from mark_protocol.urls import URLError, parse_url

MAX_LENGTH = 12_300
"""Characters of an address: the longest path of the protocol, percent-encoded."""

_SHAPE = re.compile(r"(?i:mark)://([^/?#]*)(?:/[^?#]*)?(\?[^#]*)?(#.*)?", re.DOTALL)
_WORLD = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SAFE_IN_PATH = "/$&+-.:=@_~!*'(),;"


class AddressError(Exception):
    """The text is no address of a document or directory. The message says what is wrong with it, and what helps."""


@dataclass(frozen=True, slots=True)
class Address:
    """A world's name and a canonical path in it (decoded, no trailing slash but for the root).

    `anchor` names a section of the document, and is empty for the whole.
    """

    world: str
    path: str
    anchor: str = ""

    def __str__(self) -> str:
        anchor = f"#{quote(self.anchor, safe=_SAFE_IN_PATH)}" if self.anchor else ""
        return f"mark://{self.world}{quote(self.path, safe=_SAFE_IN_PATH)}{anchor}"


def parse(text: str, *, anchored: bool = False) -> Address:
    """Read `mark://<world>/<path>`; only with `anchored` it may end in `#<section>`. Raises AddressError."""
    shape = _SHAPE.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if shape is None:
        raise AddressError("expected mark://<world>/<path>; mark_worlds lists the worlds")
    world, query, fragment = shape.groups()
    if not _WORLD.fullmatch(world):
        raise AddressError("the world's name has to be lower-case letters, digits and hyphens, without a port")
    if query is not None:
        raise AddressError("an address has no query; a question mark in a name is written %3F")
    if fragment is not None and not anchored:
        raise AddressError("this tool takes whole documents: leave out the part from # on (in a name # is written %23)")
    try:
        path = parse_url(text).path
        sent = path.encode("utf-8")
    except URLError as error:
        raise AddressError(str(error)) from None
    except UnicodeEncodeError:
        raise AddressError("the path is not UTF-8 once percent-decoded") from None
    if not is_sendable_path(sent):
        raise AddressError("the path is too long or has a control character")
    if has_parent_segment(path):
        raise AddressError("the path has a .. segment; give it from the world's root")
    anchor = unquote((fragment or "").removeprefix("#"), errors="replace")
    return Address(world, clean(path), anchor)
