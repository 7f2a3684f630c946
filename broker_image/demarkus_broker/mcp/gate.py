"""The gate before every tool: arguments, then authorization; only what passes may reach the network.

Pure. A tool without a row in the table never gets here. A world that the caller may not read and a world that does not
exist give the same refusal, word for word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from demarkus_broker.identity import READ, Person, paths_for, permits
from demarkus_broker.mcp.tools.address import AddressError, parse
from demarkus_broker.mcp.tools.tool import A, Call, Kind, Refusal, Target, Tool, Worlds


def admit(tool: Tool[A], given: Mapping[str, Any], *, person: Person, agent: str, worlds: Worlds) -> Call[A]:
    """The call, ready for the tool's handler. Raises Refusal."""
    arguments = _arguments(tool, given)
    addresses = {}
    for name in tool.world_arguments:
        try:
            addresses[name] = parse(getattr(arguments, name), anchored=tool.anchored)
        except AddressError as error:
            raise Refusal(Kind.ARGUMENT, f"{name}: {error}") from None
    targets = {}
    for name, address in addresses.items():
        entry = worlds.find(address.world, person)
        if entry is None:
            raise Refusal(
                Kind.NO_SUCH_WORLD,
                f"{name}: there is no world {address.world!r} that is open to you",
                "mark_worlds lists the worlds that are.",
            )
        target = targets[name] = Target(address, entry)
        _check_operation(tool.operation(arguments), target, name)
    return Call(person=person, agent=agent, arguments=arguments, targets=targets, worlds=worlds)


def _arguments(tool: Tool[A], given: Mapping[str, Any]) -> A:
    try:
        return tool.arguments.model_validate(given)
    except ValidationError as error:
        problems = []
        for item in error.errors(include_url=False, include_context=False, include_input=False):
            field = ".".join(str(part) for part in item["loc"])
            problem = _WORDS.get(item["type"]) or item["msg"].removeprefix("Value error, ")
            problems.append(f"{field}: {problem}" if field else problem)
        takes = ", ".join(tool.arguments.model_fields) or "no arguments"
        raise Refusal(Kind.ARGUMENT, "; ".join(problems), f"{tool.name} takes {takes}.") from None


_WORDS = {"missing": "is required", "extra_forbidden": "is not an argument of this tool"}


def _check_operation(operation: str, target: Target, argument: str) -> None:
    """Refuse what the caller's rights in that world can't cover; the world itself decides about the rest."""
    allowed = target.entry.allowed
    if operation == READ or permits(allowed, operation, target.path):
        return
    paths = paths_for(allowed, operation)
    if not paths:
        help = "mark_worlds shows where you may write."
    else:
        help = f"There you may {operation}: {', '.join(paths[:10])}"
    raise Refusal(Kind.NOT_PERMITTED, f"{argument}: you may not {operation} {target.address}", help)
