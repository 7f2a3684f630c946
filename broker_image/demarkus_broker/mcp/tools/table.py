"""The table of tools: the only way for a tool to be offered or called. What has no row here does not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from demarkus_broker.mcp.tools import (
    append,
    archive,
    discover,
    explore,
    fetch,
    listing,
    lookup,
    lookup_all,
    publish,
    resolve,
    versions,
    worlds,
)
from demarkus_broker.mcp.tools.tool import Tool

_WORLD_BEARING = frozenset({"url", "world", "source", "target", "index"})
"""Names of arguments that carry a world in any tool of this family."""


def table(tools: Iterable[Tool[Any]]) -> Mapping[str, Tool[Any]]:
    """Tools by name. Raises ValueError if one does not tell the gate of an argument that carries a world."""
    rows: dict[str, Tool[Any]] = {}
    for tool in tools:
        fields = tool.arguments.model_fields
        named = set(tool.world_arguments)
        if named - set(fields) or (_WORLD_BEARING & set(fields)) - named:
            raise ValueError(f"{tool.name}: world_arguments {tool.world_arguments} do not fit its arguments")
        if tool.name in rows:
            raise ValueError(f"{tool.name}: two tools of one name")
        rows[tool.name] = tool
    return rows


_READING = (fetch, explore, listing, versions, lookup, lookup_all, worlds, discover, resolve)
_WRITING = (publish, append, archive)

TOOLS = table(module.TOOL for module in (*_READING, *_WRITING))

_RARE = frozenset({"mark_discover", "mark_resolve"})

PROFILES: Mapping[str, Mapping[str, Tool[Any]]] = {
    "full": TOOLS,
    "lean": table(tool for tool in TOOLS.values() if tool.name not in _RARE),
}
"""What a gateway may offer: all tools, or those of every day, which cost an agent's session less."""
