"""Headings of a document, the anchors and sections they make, and its title.

Source: Mark protocol 8.1 (title), 8.4 (sections, anchors).
"""

import re

_TITLE = re.compile(r" {0,3}#(?:[ \t]+(.*))?$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
_CLOSING = re.compile(r"(?:^|[ \t])#+[ \t]*$")


def first_title(body: bytes) -> str:
    """The text of the first level-1 ATX heading outside code, or ""."""
    fence = ""
    for line in body.decode(errors="replace").splitlines():
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
        elif heading := _TITLE.match(line):
            text = _CLOSING.sub("", heading[1] or "").strip()
            if text:
                return text
    return ""
