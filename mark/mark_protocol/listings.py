"""Bodies that servers generate: directory listings, version histories, conflicts. Made here and read back here.

Source: Mark protocol, LIST, VERSIONS, PUBLISH (conflict), markdown escaping.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote

from mark_protocol import limits

_ESCAPED = re.compile(r"([\\\[\]()*_`~#|])")
_UNESCAPED = re.compile(r"\\([\\\[\]()*_`~#|])")
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_TRUNCATED = "\n*...truncated, too many entries*\n"
_LINK = re.compile(r"- \[((?:\\.|[^\\\]])*)\]\(([^()\s]*)\)", re.DOTALL)
_VERSION_LINE = re.compile(r"- \[v([0-9]+)\]\([^()\s]*\) - (\S+)")


class ListingError(Exception):
    """A body that is not the listing its response says it is."""


def escape_text(text: str) -> str:
    """Text that markdown shows as it is."""
    return _ESCAPED.sub(r"\\\1", text)


def escape_cell(text: str) -> str:
    """Text in a table's cell: line breaks become spaces."""
    return escape_text(_LINE_BREAK.sub(" ", text))


def unescape(text: str) -> str:
    """The text behind `escape_text`; other backslashes stay."""
    return _UNESCAPED.sub(r"\1", text)


def escape_link(text: str) -> str:
    """Text as the target of a link; slashes are encoded too."""
    return quote(text, safe="$&+-.:=@_~", errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class Child:
    """An immediate child of a directory; `name` is raw and without a slash."""

    name: str
    is_directory: bool = False


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a listing: its body, what is on it, and whether more follows."""

    body: bytes
    children: tuple[Child, ...]
    complete: bool


def render_list(directory: str, children: Iterable[Child], *, page_size: int = limits.LIST_PAGE_ENTRIES) -> ListPage:
    """A page of a canonical directory's children, given in order and from the page's first on.

    It ends at `page_size` entries, or before its body would pass the limit. Not more than one child too many is taken
    from `children`.
    """
    heading = directory if directory.endswith("/") else directory + "/"
    parts = [f"\n# Index of {escape_text(heading)}\n\n".encode()]
    room = limits.LIST_BODY - len(parts[0]) - len(_TRUNCATED)
    taken: list[Child] = []
    complete = True
    for child in children:
        slash = "/" if child.is_directory else ""
        line = f"- [{escape_text(child.name)}{slash}]({escape_link(child.name)}{slash})\n".encode()
        if len(taken) == page_size or len(line) > room:
            complete = False
            parts.append(_TRUNCATED.encode())
            break
        parts.append(line)
        room -= len(line)
        taken.append(child)
    return ListPage(b"".join(parts), tuple(taken), complete)


def parse_list(body: bytes) -> list[Child]:
    """The children in a listing's body, in its order. Raises ListingError."""
    children: list[Child] = []
    for line in _text(body).split("\n"):
        match = _LINK.fullmatch(line)
        if match is None:
            continue
        target = match[2]
        is_directory = target.endswith("/")
        name = unquote(target.removesuffix("/"), errors="surrogateescape")
        if name in ("", ".", "..") or "/" in name:
            raise ListingError(f"a link of the listing names no child: {target}")
        children.append(Child(name, is_directory))
    return children


@dataclass(frozen=True, slots=True)
class VersionLine:
    """A line of a version history; `modified` is the RFC 3339 time as it stands there."""

    number: int
    modified: str


def render_versions(path: str, versions: Iterable[VersionLine]) -> bytes:
    """The history of a canonical path, for versions given newest first."""
    link = escape_link(path)
    lines = "".join(f"- [v{version.number}]({link}/v{version.number}) - {version.modified}\n" for version in versions)
    return f"\n# Version History: {escape_text(path)}\n\n{lines}".encode()


def parse_versions(body: bytes) -> list[VersionLine]:
    """The lines of a history's body, newest first. Raises ListingError."""
    matches = filter(None, map(_VERSION_LINE.fullmatch, _text(body).split("\n")))
    return [VersionLine(int(match[1]), match[2]) for match in matches]


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise ListingError("the listing is not valid UTF-8") from None


def conflict_body(expected: int, current: int, *, append: bool = False) -> bytes:
    """The body of a `conflict` response to PUBLISH, or to APPEND, which gives other advice."""
    if expected == 0:
        return (
            f"# Version Conflict\n\nA document already exists at this path (version {current}).\n\n"
            "Fetch the current version and publish with the correct expected-version to update it.\n"
        ).encode()
    advice = (
        "Fetch the latest version and verify whether your append was applied before retrying."
        if append
        else "Please fetch the latest version and reapply your edits."
    )
    return (
        "# Version Conflict\n\nThe document has been modified since you last fetched it.\n\n"
        f"Your version: {expected}\nServer version: {current}\n\n{advice}\n"
    ).encode()
