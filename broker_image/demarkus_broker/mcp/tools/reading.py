"""What tools that show text share: is it text, its outline, one section of it.

Pure.
"""

from __future__ import annotations

from demarkus_broker.mcp.tools.tool import Kind, Refusal
from mark_protocol.outline import cut, entries

LARGE = 8192
"""Bytes from which a document is shown as an outline unless its text is asked for."""
_MOST_ANCHORS = 50


def text_of(body: bytes) -> str | None:
    """The text of a body, None if it is none."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def size_of(body: bytes) -> str:
    """How large a body is, for people."""
    lines = body.count(b"\n") + (not body.endswith(b"\n"))
    return f"{len(body)} bytes, {lines} lines"


def outline_of(body: bytes, *, most: int | None = None) -> str:
    """The headings, indented by level, each with its anchor and the lines of its section; at most `most` of them."""
    rows = entries(body)
    shown = rows[:most]
    lines = [f"{'  ' * (row.level - 1)}- {row.text} (#{row.anchor}, {row.lines} lines)" for row in shown]
    if len(shown) < len(rows):
        lines.append(f"- ... {len(rows) - len(shown)} more")
    return "\n".join(lines) + "\n" if lines else "(no headings)\n"


def section_of(body: bytes, anchor: str) -> str:
    """A section by its anchor, or by the text of its heading. Raises Refusal, which lists the anchors there are."""
    section = cut(body, anchor)
    if section is not None:
        return section.decode("utf-8", errors="replace")
    anchors = [f"#{row.anchor}" for row in entries(body)]
    more = f" and {len(anchors) - _MOST_ANCHORS} more" if len(anchors) > _MOST_ANCHORS else ""
    there = ", ".join(anchors[:_MOST_ANCHORS]) + more if anchors else "none"
    raise Refusal(Kind.ARGUMENT, f"url: the document has no section #{anchor[:200]}", f"Its sections: {there}")
