"""The prompts: tasks that people start from their client's menu.

Pure: a prompt is a text that names the tools to use; it reads nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date

from demarkus_broker.mcp.tools.address import AddressError, parse


class PromptError(ValueError):
    """A prompt that there is not, or arguments that do not hold. The text says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """What a prompt may be given."""

    name: str
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt, and how its text is made from its arguments."""

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    text: Callable[[Mapping[str, str]], str]


def render(name: str, given: Mapping[str, str]) -> tuple[Prompt, str]:
    """A prompt and its text for these arguments. Raises PromptError."""
    prompt = PROMPTS.get(name)
    if prompt is None:
        raise PromptError(f"there is no prompt {name!r}; there are {', '.join(PROMPTS)}")
    takes = {argument.name: argument for argument in prompt.arguments}
    for key, value in given.items():
        if key not in takes:
            raise PromptError(f"{key}: is not an argument of {name}")
        if len(value) > 1000 or not value.isprintable():
            raise PromptError(f"{key}: expected one line of at most 1000 characters")
    for argument in prompt.arguments:
        if argument.required and not given.get(argument.name, "").strip():
            raise PromptError(f"{argument.name}: is required")
    return prompt, prompt.text(given)


def _orient(given: Mapping[str, str]) -> str:
    try:
        address = parse(given["url"])
    except AddressError as error:
        raise PromptError(f"url: {error}") from None
    return (
        f"Give me an orientation of {address}.\n"
        f"1. mark_discover mark://{address.world}/ for what that world says of itself.\n"
        f"2. mark_explore {address} for its outline, opening, links and neighbours; mark_list if it is a directory.\n"
        "3. Fetch only the sections that you need (url#anchor).\n"
        "Then tell me in ten lines: what it is, what state it is in, what to read first and why. Cite URLs."
    )


def _recall(given: Mapping[str, str]) -> str:
    return (
        f"What do our worlds know about: {given['subject']}\n"
        "1. mark_worlds for the worlds that are open to you.\n"
        "2. mark_lookup_all for the subject, with match=catalog; then with match=body and a budget of 2000 if the "
        "titles do not settle it. With status partial, say which worlds did not answer.\n"
        "3. Fetch the sections that matter; follow supersedes relations to the newest text.\n"
        "Answer with what is known, by whom and when, and what is contradictory or missing. Cite URLs with versions."
    )


def _whats_new(given: Mapping[str, str]) -> str:
    since = given.get("since", "").strip()
    if since:
        try:
            date.fromisoformat(since)
        except ValueError:
            raise PromptError("since: expected a date, like 2026-11-30") from None
    world = given.get("world", "").strip()
    where = f"world {world}" if world else "all our worlds"
    after = since or "<the date 7 days ago>"
    look = f"mark_lookup mark://{world}/" if world else "mark_lookup_all"
    return (
        f"What is new in {where} since {since or 'a week ago'}?\n"
        "1. mark_worlds for the worlds that are open to you.\n"
        f"2. {look} with query=*, filter=modified-after={after} and limit=100.\n"
        "3. mark_versions of what looks important, and fetch its sections.\n"
        "Group what changed by subject; for each say what, who and when. Cite URLs."
    )


_SINCE = Argument(name="since", description="a date, like 2026-11-30; a week ago if left out")
_WORLD = Argument(name="world", description="one world; all of them if left out")

PROMPTS: Mapping[str, Prompt] = {
    prompt.name: prompt
    for prompt in (
        Prompt(
            name="orient",
            title="Get oriented",
            description="What a document, directory or world is, and what to read first.",
            arguments=(Argument(name="url", description="mark://<world>/<path>", required=True),),
            text=_orient,
        ),
        Prompt(
            name="recall",
            title="Recall what is known",
            description="What all worlds know about a subject.",
            arguments=(Argument(name="subject", description="a few words", required=True),),
            text=_recall,
        ),
        Prompt(
            name="whats-new",
            title="What is new",
            description="What changed lately, in one world or in all.",
            arguments=(_SINCE, _WORLD),
            text=_whats_new,
        ),
    )
}
