"""The metadata block of requests and responses: a flat YAML map from text to text, between two fences.

Reading takes all of YAML that a flat map can be written in, and keeps every scalar as its text. The common form, one
plain `key: value` a line, is read without the YAML library; both ways give the same result. Writing gives the one form
that the Go library gives: keys in natural order, one line an entry.

Source: Mark protocol, metadata block; key order; value quoting.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cmp_to_key
from typing import Any

import yaml

from mark_protocol.scalars import Kind, kind_of, quote

FENCE = b"---\n"

# A flat map's values nest two deep; merges and ignored values may go further, but never need to go far.
_MAX_DEPTH = 16
# Entries copied by merge keys. A block of 64 KiB cannot hold more entries of its own.
_MAX_MERGED = 16_384

# A word may hold `:` and `#` inside; a colon at its end or a hash at its start would mean something to YAML.
_WORD = r"[!-~]++(?<!:)"
_PLAIN_LINE = re.compile(
    r"([A-Za-z][A-Za-z0-9_-]{0,127}):(?: +(?:"
    rf"((?=[A-Za-z0-9/+._]){_WORD}(?: +(?!#){_WORD})*)"
    r'|"([ !#-\[\]-~]*)"'
    r"|'([ -&(-~]*)'"
    r"))? *\n"
)
_NULL_WORDS = frozenset(["null", "Null", "NULL"])
_LOWER_KEYS = re.compile(r"[a-z-]*")
_TAG = "tag:yaml.org,2002:"
_CORE_KINDS = {_TAG + kind.value: kind for kind in Kind if kind is not Kind.TEXT}


class BlockError(Exception):
    """A block that is no flat map of text. The message never holds a value of the block."""


def split(data: bytes, start: int = 0) -> tuple[bytes | None, bytes]:
    """Cut data that may begin with a block, from `start` on: (what is between the fences or None, what is behind).

    Raises BlockError where a block is opened and never closed.
    """
    if not data.startswith(FENCE, start):
        return None, data[start:]
    begin = start + len(FENCE)
    # The search starts behind the opening fence's own LF: two fences in a row do not close each other.
    end = data.find(b"\n---\n", begin)
    if end >= 0:
        return data[begin:end], data[end + 5 :]
    if data.endswith(b"\n---") and len(data) - 4 >= begin:
        return data[begin:-4], b""
    raise BlockError("the metadata block is not closed")


def decode_block(block: bytes) -> dict[str, str]:
    """The entries of a block (what stands between its fences); raises BlockError for what is no flat map of text."""
    try:
        text = block.decode()
    except UnicodeDecodeError:
        raise BlockError("the metadata block is not valid UTF-8") from None
    entries = _decode_plain(text)
    return _decode_yaml(text) if entries is None else entries


def _decode_plain(text: str) -> dict[str, str] | None:
    """The entries of a block in the common form; None where it takes a YAML reader to tell."""
    entries: dict[str, str] = {}
    text += "\n"
    position, end, lines = 0, len(text), 0
    while position < end:
        match = _PLAIN_LINE.match(text, position)
        if match is None:
            return None
        key, plain, double, single = match.groups()
        if key in _NULL_WORDS:
            return None
        entries[key] = ("" if plain in _NULL_WORDS else plain) or double or single or ""
        position = match.end()
        lines += 1
    return entries if len(entries) == lines else None


@dataclass(slots=True)
class _Scalar:
    text: str
    tag: str | None
    quoted: bool
    alias: str | None = None  # the name by which an alias stands for it


@dataclass(slots=True)
class _Collection:
    mapping: bool
    items: list["_Node"] = field(default_factory=list)  # of a mapping: key, value, key, value ...
    closed: bool = False
    merged: dict[str, str] | None = None


_Node = _Scalar | _Collection


def _decode_yaml(text: str) -> dict[str, str]:
    try:
        root = _compose(yaml.parse(text, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, UnicodeError, ValueError):
        # The library's message quotes the text it stumbled over, which may be a credential.
        raise BlockError("the metadata block is not valid YAML") from None
    if root is None or (isinstance(root, _Scalar) and _text_of(root) is None):
        return {}
    if isinstance(root, _Scalar) or not root.mapping:
        raise BlockError("the metadata block is not a map")
    return _Flattener().entries(root)


def _compose(events: Iterator[Any]) -> _Node | None:
    """The first document as nodes, aliases resolved; None for an empty stream."""
    root: _Node | None = None
    anchors: dict[str, _Node] = {}
    open_collections: list[_Collection] = []
    for event in events:
        node: _Node
        if isinstance(event, yaml.ScalarEvent):
            node = _Scalar(event.value, event.tag, bool(event.style))
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                raise BlockError("an alias in the metadata block names no anchor")
            node = anchors[event.anchor]
            if isinstance(node, _Scalar):
                node = replace(node, alias=event.anchor)
            elif not node.closed:
                raise BlockError("an alias in the metadata block names the node it is in")
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(open_collections) >= _MAX_DEPTH:
                raise BlockError("the metadata block is nested too deeply")
            node = _Collection(isinstance(event, yaml.MappingStartEvent))
        elif isinstance(event, yaml.CollectionEndEvent):
            open_collections.pop().closed = True
            continue
        elif isinstance(event, yaml.DocumentEndEvent):
            return root  # more documents may follow; they are not read
        else:
            continue
        if open_collections:
            open_collections[-1].items.append(node)
        else:
            root = node
        if isinstance(event, yaml.AliasEvent):
            continue
        if event.anchor is not None:
            anchors[event.anchor] = node
        if isinstance(node, _Collection):
            open_collections.append(node)
    return None


class _Flattener:
    """Turns mappings into entries, following merge keys, with a bound on the copying they ask for."""

    def __init__(self) -> None:
        self._budget = _MAX_MERGED

    def entries(self, mapping: _Collection, depth: int = 0) -> dict[str, str]:
        if mapping.merged is not None:
            return mapping.merged
        if depth > _MAX_DEPTH:
            raise BlockError("the merge keys of the metadata block are nested too deeply")
        keys = mapping.items[::2]
        values = mapping.items[1::2]
        written = [(key.text, key.alias) if isinstance(key, _Scalar) else None for key in keys]
        if len(set(written)) != len(written):
            raise BlockError("a key in the metadata block is there twice")
        own: dict[str, str] = {}
        merge: _Node | None = None
        for key, value in zip(keys, values, strict=True):
            if isinstance(key, _Collection):
                raise BlockError("a key in the metadata block is a list or a map")
            if _is_merge(key):
                merge = value
                continue
            name = _text_of(key)
            if name is None:
                continue  # a null key drops its entry, whatever the value is
            if isinstance(value, _Collection):
                raise BlockError("a value in the metadata block is a list or a map")
            own[name] = _text_of(value) or ""
        if merge is not None:
            for source in self._sources(merge):
                copied = self.entries(source, depth + 1)
                self._budget -= len(copied) + 1
                if self._budget < 0:
                    raise BlockError("the merge keys of the metadata block copy too much")
                for name, text in copied.items():
                    own.setdefault(name, text)
        mapping.merged = own
        return own

    @staticmethod
    def _sources(merge: _Node) -> list[_Collection]:
        nodes = merge.items if isinstance(merge, _Collection) and not merge.mapping else [merge]
        sources = [node for node in nodes if isinstance(node, _Collection) and node.mapping]
        if len(sources) != len(nodes):
            raise BlockError("a merge key in the metadata block names no map")
        return sources


def _is_merge(key: _Scalar) -> bool:
    if key.text != "<<" or key.alias is not None:
        return False
    return key.tag == _TAG + "merge" or (key.tag in (None, "!") and not key.quoted)


def _text_of(scalar: _Scalar) -> str | None:
    """A scalar's text; None for null. Raises BlockError where an explicit tag does not fit the text."""
    if scalar.tag == _TAG + "binary":
        try:
            raw = base64.b64decode(scalar.text.replace("\n", "").replace("\r", ""), validate=True)
        except (binascii.Error, ValueError):
            raise BlockError("a binary scalar in the metadata block is not base64") from None
        return raw.decode(errors="surrogateescape")
    if scalar.tag in (None, "!"):
        return None if not scalar.quoted and kind_of(scalar.text) is Kind.NULL else scalar.text
    wanted = _CORE_KINDS.get(scalar.tag)
    if wanted is None:
        return scalar.text
    found = kind_of(scalar.text)
    if found is not wanted and (found, wanted) != (Kind.INTEGER, Kind.FLOAT):
        raise BlockError("a tag in the metadata block does not fit its scalar")
    return None if wanted is Kind.NULL else scalar.text


def encode_block(entries: Mapping[str, str]) -> bytes:
    """The entries as they stand between the fences, each line ended; empty bytes for no entries.

    Raises ValueError for text that cannot be written at all (surrogates that stand for no byte).
    """
    lines: list[str] = []
    for key in natural_order(entries):
        name, value = quote(key, key=True), quote(entries[key])
        lines.append(f"? {name}\n: {value}\n" if _is_complex(name) else f"{name}: {value}\n")
    return "".join(lines).encode()


def _is_complex(name: str) -> bool:
    """Whether a key must be announced by `?`: readers look for its colon only so far, and only on its first line."""
    if name.isascii():
        return len(name) > 128
    return len(name.encode()) > 128 or "\u2028" in name or "\u2029" in name


def natural_order(keys: Mapping[str, str]) -> list[str]:
    """Keys in the order that the Go library writes them: byte order, but numbers inside a key count as numbers."""
    if _LOWER_KEYS.fullmatch("".join(keys)):
        return sorted(keys)
    return sorted(keys, key=cmp_to_key(_compare_natural))


def _compare_natural(a: str, b: str) -> int:
    after_digit = False
    for index, (left, right) in enumerate(zip(a, b, strict=False)):
        if left == right:
            after_digit = left.isdecimal()
            continue
        if left.isalpha() or right.isalpha():
            if left.isalpha() and right.isalpha():
                return -1 if left < right else 1
            # Behind a digit a letter comes before all else, elsewhere all else comes before a letter.
            return -1 if left.isalpha() == after_digit else 1
        inside = "0" in (left, right) and _in_number(a, index)
        left_length, left_value = _number(a, index, inside)
        right_length, right_value = _number(b, index, inside)
        difference = left_value - right_value or left_length - right_length or ord(left) - ord(right)
        return -1 if difference < 0 else 1
    return len(a) - len(b)


def _number(text: str, start: int, inside: bool) -> tuple[int, int]:
    """The run of digits at `start`: its length, and its value, which wraps around at 64 bits as in Go."""
    value, end = int(inside), start
    while end < len(text) and text[end].isdecimal():
        value = (value * 10 + ord(text[end]) - ord("0")) & (2**64 - 1)
        end += 1
    return end - start, value if value < 2**63 else value - 2**64


def _in_number(text: str, index: int) -> bool:
    """Whether a digit other than zero stands in the run of digits that ends before `index`."""
    for character in reversed(text[:index]):
        if not character.isdecimal():
            return False
        if character != "0":
            return True
    return False
