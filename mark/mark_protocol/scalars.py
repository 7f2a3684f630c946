"""How a plain scalar of a metadata block is understood, and how a value is written so that it reads back as itself.

Every value of the protocol is text, but blocks are YAML: text that YAML would take for a number, a date or a word of
its own must be quoted, and a peer quotes exactly as the Go library does. Nothing here is about blocks or keys.

Source: Mark protocol, value quoting; the core types of YAML 1.1 and 1.2 as the Go library mixes them.
"""

import base64
import re
from datetime import datetime
from enum import StrEnum
from math import isinf

_NULLS = frozenset(["", "~", "null", "Null", "NULL"])
_BOOLEANS = frozenset(["true", "True", "TRUE", "false", "False", "FALSE"])
# Words that YAML 1.1 takes for booleans. The Go library reads them as text but quotes them, for older readers.
_OLD_BOOLEANS = frozenset(
    ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF"]
)
_NAMED_FLOATS = frozenset([".nan", ".NaN", ".NAN"]) | {
    sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")
}

_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*|0[0-7]+|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+)")
_SIGN_AFTER_PREFIX = re.compile(r"0b[+-][01]+|0o[+-][0-7]+")
_FLOAT = re.compile(r"[+-]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][+-]?[0-9]+)?")
_POINT_FLOAT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][+-]?[0-9]+(?:_[0-9]+)*)?")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:(?:[Tt]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?(?:Z|[+-]([0-9]{2}):([0-9]{2})))"
    r"|(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?))?"
)

# Values that need no further look: a letter, a slash or a hash's digits first and nothing special behind it.
_SURELY_PLAIN = re.compile(r"/[A-Za-z0-9_./+=,-]*|[A-Za-z][A-Za-z0-9_./+=,-]{5,}(?: [A-Za-z0-9_./+=,-]+)*")
_UNPRINTABLE = "[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]"
# A space beside a line separator would be lost in the folding of single quotes.
_NEEDS_ESCAPES = re.compile(_UNPRINTABLE + "| [\u2028\u2029]|[\u2028\u2029] ")
_ESCAPED_IN_DOUBLE = re.compile('["\\\\\u2028\u2029]|' + _UNPRINTABLE)
_SURROGATE = re.compile("[\ud800-\udfff]")
# Blanks at the ends of lines, and whatever else a literal block would not give back.
_NOT_LITERAL = re.compile(f"^[ \n]| \n|[ \n]\\Z|[\u2028\u2029]|(?!\n){_UNPRINTABLE}")
_NOT_PLAIN = re.compile(r"""^(?: |---|[.]{3}|[#,\[\]{}&*!|>'"%@`]|[-?](?: |\Z))|:(?: |\Z)| #| \Z|[""" + "\u2028\u2029]")
_ESCAPES = {
    "\0": "\\0", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r",
    "\x1b": "\\e", '"': '\\"', "\\": "\\\\", "\x85": "\\N", "\u2028": "\\L", "\u2029": "\\P",
}  # fmt: skip


class Kind(StrEnum):
    """What a plain scalar is taken for."""

    TEXT = "str"
    NULL = "null"
    BOOLEAN = "bool"
    INTEGER = "int"
    FLOAT = "float"
    TIMESTAMP = "timestamp"


def kind_of(plain: str) -> Kind:
    """What a reader makes of a scalar that is written without quotes and without a tag."""
    if plain in _NULLS:
        return Kind.NULL
    if plain in _BOOLEANS:
        return Kind.BOOLEAN
    if plain in _NAMED_FLOATS:
        return Kind.FLOAT
    if plain[0] == ".":
        return Kind.FLOAT if _POINT_FLOAT.fullmatch(plain) and _finite(plain) else Kind.TEXT
    if plain[0] not in "+-0123456789":
        return Kind.TEXT
    if _is_timestamp(plain):
        return Kind.TIMESTAMP
    bare = plain.replace("_", "")
    if _is_integer(bare):
        return Kind.INTEGER
    if _FLOAT.fullmatch(bare) and _finite(bare):
        return Kind.FLOAT
    return Kind.TEXT


def _finite(number: str) -> bool:
    return not isinf(float(number))


def _is_integer(bare: str) -> bool:
    if _SIGN_AFTER_PREFIX.fullmatch(bare):
        # Only in 64 bits with a sign, and only for these two prefixes: a habit of the Go library.
        return -(2**63) <= int(bare[2:], 2 if bare[1] == "b" else 8) < 2**63
    if not _INTEGER.fullmatch(bare):
        return False
    sign = bare[0] if bare[0] in "+-" else ""
    digits = bare[len(sign) :]
    base = {"x": 16, "o": 8, "b": 2}.get(digits[1:2].lower())
    if base is not None:
        value = int(digits[2:], base)
    elif digits[0] == "0":
        value = int(digits, 8)
    elif len(digits) <= 20:
        value = int(digits)
    else:
        return False
    if sign == "-":
        return value <= 2**63
    return value < (2**63 if sign else 2**64)


def _is_timestamp(plain: str) -> bool:
    match = _TIMESTAMP.fullmatch(plain)
    if match is None:
        return False
    year, month, day = (int(part) for part in match.groups()[:3])
    hour, minute, second = (int(part or 0) for part in (match.groups()[3:6] if match[4] else match.groups()[8:11]))
    if match[7] and (int(match[7]) > 24 or int(match[8]) > 60):
        return False
    try:
        # Year 0 exists in Go's calendar and is a leap year, as 4 is.
        datetime(year or 4, month, day, hour, minute, second)
    except ValueError:
        return False
    return True


def reads_as_text(value: str) -> bool:
    """Whether a value written plain reads back as text for every reader, also for those of YAML 1.1."""
    return kind_of(value) is Kind.TEXT and value not in _OLD_BOOLEANS and not _BASE_60.fullmatch(value)


def quote(value: str, *, key: bool = False) -> str:
    """A value, or a key, as it stands in a block: one line, but for a value of several lines.

    Bytes that are no UTF-8, held as surrogate escapes, become base64 with the tag for it. Raises ValueError for
    surrogates that stand for no byte.
    """
    if _SURELY_PLAIN.fullmatch(value):
        return value
    if _SURROGATE.search(value):
        return "!!binary " + base64.b64encode(value.encode(errors="surrogateescape")).decode()
    if "\n" in value and not key and not _NOT_LITERAL.search(value):
        return "|-\n    " + re.sub("\n(?=[^\n])", "\n    ", value)
    if _NEEDS_ESCAPES.search(value) or not reads_as_text(value):
        return f'"{_ESCAPED_IN_DOUBLE.sub(_escape, value)}"'
    if _NOT_PLAIN.search(value) or (key and value == "<<"):
        # The two Unicode line separators are line breaks: text that follows them is indented.
        return "'" + re.sub("[\u2028\u2029]+(?=.)", r"\g<0>    ", value.replace("'", "''")) + "'"
    return value


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _ESCAPES:
        return _ESCAPES[character]
    point = ord(character)
    if point <= 0xFF:
        return f"\\x{point:02X}"
    return f"\\u{point:04X}" if point <= 0xFFFF else f"\\U{point:08X}"
