"""What a caller may see of a directory (Mark protocol 4.2, "Entries").

Names that begin with a dot and the name `versions` are never shown. In mode `public` a directory shows when it holds
a visible document at any depth and its path with a slash may be read. In the other modes it shows exactly when
something below it shows: so a caller walks down to what a pattern permits and learns of nothing beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from demarkus_world.engine.engine import Child, View
from demarkus_world.policy import PROPOSALS
from demarkus_world.settings import ReadMode
from demarkus_world.verbs.call import Call, not_found, refuse
from mark_protocol import listings


def below(directory: str, name: str) -> str:
    """The path of a child."""
    return f"{directory.rstrip('/')}/{name}"


def visible_children(call: Call, view: View, directory: str, *, include_archived: bool) -> Iterator[listings.Child]:
    """The entries that this caller may see, in ascending byte order of their names."""
    for child in view.children(directory, heads=False):
        if _shows(call, view, directory, child, include_archived=include_archived):
            yield listings.Child(child.name, child.kind == "directory")


def enter(call: Call, directory: str) -> bool:
    """Whether the caller sees only a part of this directory; raises Refused if it may not even be listed."""
    denial = call.denial(directory)
    reviews = directory == PROPOSALS and call.credential is not None
    if denial is not None and not reviews and not call.rules.on_the_way(call.credential, directory):
        refuse(denial)
    return denial is not None


def require_directory(call: Call, view: View, directory: str, *, partial: bool, include_archived: bool) -> None:
    """Raises Refused (`not-found`) unless there is such a directory.

    One of which the caller sees only a part counts as missing while nothing in it shows: its existence must not tell
    about what the caller may not see.
    """
    if directory == "/":
        return
    if not view.is_directory(directory):
        raise not_found(directory)
    if partial and next(visible_children(call, view, directory, include_archived=include_archived), None) is None:
        raise not_found(directory)


def _shows(call: Call, view: View, directory: str, child: Child, *, include_archived: bool) -> bool:
    if _hidden(child.name) or not (child.has_visible if include_archived else child.has_live):
        return False
    path = below(directory, child.name)
    if child.kind == "file":
        return call.readable(path)
    if call.rules.reads is ReadMode.PUBLIC:
        return call.readable(path + "/")
    if not call.readable(path + "/") and not call.rules.on_the_way(call.credential, path):
        return False
    return any(
        _shows(call, view, path, grandchild, include_archived=include_archived)
        for grandchild in view.children(path, heads=False)
    )


def _hidden(name: str) -> bool:
    return name.startswith(".") or name == "versions"
